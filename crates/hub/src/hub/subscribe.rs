//! A SUBSCRIBE on its way to the core: those who may have something against it are asked before.

use stentor_mqtt::Subscribe;
use stentor_session::{CloseReason, Tick};

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Decided, Denial, Verdicts, may_name_rooms};
use crate::services::rooms::{Cause, JOINED_AT_ONCE_MAX};

impl Hub {
    /// A SUBSCRIBE, what adaptors have against its elements, and of what they were not asked; what
    /// is missing is allowed.
    pub(crate) fn on_subscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        (denials, decided): (&[Option<Denial>], &Decided),
    ) -> Result<(), CloseReason> {
        let mut verdicts = Verdicts::new();
        if may_name_rooms(subscribe) {
            let filters = self
                .core
                .rules()
                .allowed_filters(subscribe, denials, decided);
            let unasked = (&decided.unasked[..], JOINED_AT_ONCE_MAX);
            let service = &mut self.services.rooms;
            let rooms = service.rooms_to_ask(&self.core, key, filters, unasked);
            if !rooms.to_ask.is_empty()
                && let Some((awaited, elements, asked)) =
                    self.core.owned_request(key, subscribe, (denials, decided))
            {
                let cause = Cause::Subscribe(awaited);
                let owned = (elements, asked);
                let asked = service.ask_rooms(&mut self.core, now, key, &rooms, cause, owned);
                if asked.is_ok() {
                    return Ok(());
                }
            }
            verdicts = rooms.verdicts;
        }
        self.core
            .subscribe(now, key, subscribe, (denials, decided), verdicts)
    }
}
