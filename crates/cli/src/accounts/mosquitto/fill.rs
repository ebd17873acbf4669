//! How a role is written to the user database: with one order, or in steps. No step permits what
//! neither the old nor the new role permits.

use std::collections::BTreeSet;
use std::sync::Arc;

use stentor_auth::model::{Effect, Quotas, Role, Rule};
use stentor_auth::store::Order;

use super::AccountsClient;
use super::clash::list;
use crate::failure::Failure;

/// Rules that one order carries: each has about a kibibyte at most, and a request has to fit into
/// 64 KiB.
const RULES_AT_ONCE: usize = 40;

/// Writes a role to the user database.
pub(super) fn put(
    accounts: &mut AccountsClient,
    role: &Role,
    replace: bool,
) -> Result<(), Failure> {
    let is_long = role.rules.len() > RULES_AT_ONCE;
    let known = match is_long && replace && accounts.has_books() {
        true => known(accounts, &role.name)?,
        false => None,
    };
    for order in steps(role, known, replace) {
        accounts.order(&order)?;
    }
    Ok(())
}

/// What a role is that is there already.
#[derive(Clone, Debug, Default)]
struct Known {
    rules: BTreeSet<Rule>,
    quotas: Quotas,
}

/// The role of this name, if there is one.
fn known(accounts: &mut AccountsClient, name: &str) -> Result<Option<Known>, Failure> {
    let roles = accounts.order(&Order::RoleList {})?;
    let role = list(&roles["roles"]).find(|role| role["zone"].is_null() && role["name"] == name);
    let Some(role) = role else {
        return Ok(None);
    };
    let rules = list(&role["rules"]).filter_map(|rule| rule.as_str());
    let rules = rules.map(|rule| {
        let rule = rule.parse::<Rule>();
        rule.map_err(|error| Failure::new(error.to_string()))
    });
    let quotas = serde_json::from_value(role["quotas"].clone());
    Ok(Some(Known {
        rules: rules.collect::<Result<_, _>>()?,
        quotas: quotas.map_err(|error| Failure::new(format!("the quotas of {name}: {error}")))?,
    }))
}

/// The orders that make this role of the one that is known. Denials are the first to come and the
/// last to go, and quotas are the stricter ones until the last step, so that whoever asks
/// in the meantime, or after the rest never came, is denied rather than permitted too much.
fn steps(role: &Role, known: Option<Known>, replace: bool) -> Vec<Order> {
    let is_denial = |rule: &Rule| rule.effect == Effect::Deny;
    let (denials, allowances): (Vec<Rule>, Vec<Rule>) =
        role.rules.iter().cloned().partition(is_denial);
    let Some(known) = known else {
        let rules = [denials, allowances].concat();
        let (first, rest) = rules.split_at(rules.len().min(RULES_AT_ONCE));
        let mut orders = vec![Order::RoleAdd {
            zone: None,
            name: Arc::clone(&role.name),
            rules: first.to_vec(),
            quotas: role.quotas,
            replace,
        }];
        orders.extend(changes(role, rest, true));
        return orders;
    };
    let new: BTreeSet<&Rule> = role.rules.iter().collect();
    let gone = known.rules.iter().filter(|rule| !new.contains(rule));
    let (old_denials, old_allowances): (Vec<Rule>, Vec<Rule>) = gone.cloned().partition(is_denial);
    let strict = role.quotas.stricter(known.quotas);
    let mut orders = vec![quotas(role, strict, Vec::new())];
    orders.extend(changes(role, &old_allowances, false));
    orders.extend(changes(role, &denials, true));
    orders.extend(changes(role, &old_denials, false));
    orders.extend(changes(role, &allowances, true));
    orders.push(quotas(
        role,
        role.quotas,
        Quotas::NAMES.map(str::to_owned).to_vec(),
    ));
    orders
}

/// The order that sets quotas, and takes those of these names away.
fn quotas(role: &Role, quotas: Quotas, unbound: Vec<String>) -> Order {
    Order::RoleChange {
        zone: None,
        name: Arc::clone(&role.name),
        add: Vec::new(),
        remove: Vec::new(),
        quotas,
        unbound,
    }
}

/// Orders that add these rules, or take them away.
fn changes(role: &Role, rules: &[Rule], adds: bool) -> impl Iterator<Item = Order> {
    rules.chunks(RULES_AT_ONCE).map(move |part| {
        let (add, remove) = match adds {
            true => (part.to_vec(), Vec::new()),
            false => (Vec::new(), part.to_vec()),
        };
        Order::RoleChange {
            zone: None,
            name: Arc::clone(&role.name),
            add,
            remove,
            quotas: Quotas::default(),
            unbound: Vec::new(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(effect: &str, numbers: std::ops::Range<usize>) -> Vec<Rule> {
        let rule = |number| {
            format!("{effect} both t/{number}")
                .parse::<Rule>()
                .expect("a rule")
        };
        numbers.map(rule).collect()
    }

    /// Carries the orders out, and shows the role after each.
    fn after_each(known: Option<&Known>, orders: Vec<Order>) -> Vec<Known> {
        let mut role = known.cloned().unwrap_or_default();
        let mut seen = Vec::new();
        for order in orders {
            match order {
                Order::RoleAdd { rules, quotas, .. } => {
                    role.rules = rules.into_iter().collect();
                    role.quotas = quotas;
                }
                Order::RoleChange {
                    add,
                    remove,
                    quotas,
                    unbound,
                    ..
                } => {
                    assert!(add.len() + remove.len() <= RULES_AT_ONCE);
                    for rule in remove {
                        assert!(role.rules.remove(&rule), "{rule} is there");
                    }
                    role.rules.extend(add);
                    role.quotas = quotas.or(role.quotas.without(&unbound));
                }
                other => panic!("{other:?}"),
            }
            seen.push(role.clone());
        }
        seen
    }

    fn check(known: Option<BTreeSet<Rule>>, new: Vec<Rule>) {
        let [small, large] = [(1, None), (9, Some(9))].map(|(connections, subscriptions)| Quotas {
            connections: Some(connections),
            subscriptions,
            ..Quotas::default()
        });
        for (of_old, of_new) in [
            (Quotas::default(), small),
            (small, Quotas::default()),
            (small, large),
            (large, small),
        ] {
            let role = Role {
                zone: None,
                name: "a".into(),
                rules: new.clone(),
                quotas: of_new,
            };
            let known = known.clone().map(|rules| Known {
                rules,
                quotas: of_old,
            });
            check_steps(known, &role);
        }
    }

    fn check_steps(known: Option<Known>, role: &Role) {
        let new: BTreeSet<Rule> = role.rules.iter().cloned().collect();
        let seen = after_each(known.as_ref(), steps(role, known.clone(), true));
        let (last, before) = seen.split_last().expect("there are steps");
        assert_eq!((&last.rules, last.quotas), (&new, role.quotas));
        if let Some(known) = &known {
            // As strict as both, until all rules are those of the new role.
            let strict = role.quotas.stricter(known.quotas);
            assert!(before.iter().all(|now| now.quotas == strict), "{before:?}");
        }
        let old = known.map(|known| known.rules).unwrap_or_default();
        let part = |rules: &BTreeSet<Rule>, effect| -> BTreeSet<Rule> {
            let of = rules.iter().filter(|rule| rule.effect == effect);
            of.cloned().collect()
        };
        for Known { rules: now, .. } in &seen {
            // Nothing but what one of the two permits as a whole.
            let is_no_more_than = |whole: &BTreeSet<Rule>| {
                part(now, Effect::Allow).is_subset(&part(whole, Effect::Allow))
                    && part(now, Effect::Deny).is_superset(&part(whole, Effect::Deny))
            };
            assert!(is_no_more_than(&old) || is_no_more_than(&new), "{now:?}");
        }
    }

    #[test]
    fn no_step_permits_more_than_the_old_or_the_new_role() {
        let new = [rules("allow", 0..90), rules("deny", 90..190)].concat();
        check(None, new.clone());
        check(Some(new.iter().cloned().collect()), new.clone());
        let other = [rules("allow", 50..150), rules("deny", 0..130)].concat();
        check(Some(other.into_iter().collect()), new.clone());
        check(Some(BTreeSet::new()), new);
    }
}
