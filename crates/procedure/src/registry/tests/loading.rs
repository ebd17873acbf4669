//! Files that come, change and go.

use super::*;

#[test]
fn a_bad_version_keeps_the_old_one_and_says_why() {
    let place = good(&[("p.luau", "return function() return accept('one') end")]);
    assert_eq!(place.loaded.loaded, ["p"]);
    assert_eq!(place.registry.refresh().unwrap(), Loaded::default());
    for (text, reason) in [
        ("return function( return accept('two') end", "p.luau:1:"),
        ("\n\nlocal x = nil + 1 return function() end", "p.luau:3:"),
        ("return 3", "a script ends with"),
        (
            "--[[ procedure\nneeds = 3\n]] return function() end",
            "p.luau: line 2",
        ),
        (
            "return { call = function() return accept() end,
              test = function() assert(false, 'not ready') end }",
            "not ready",
        ),
    ] {
        let loaded = place.write("p.luau", text);
        assert_eq!(loaded.loaded, [""; 0], "{text}");
        assert!(loaded.refused[0].1.contains(reason), "{:?}", loaded.refused);
        assert_eq!(place.outcome(empty_call("p")).text, "one");
        let figures = place.registry.figures();
        let figures = figures
            .iter()
            .find(|figures| figures.procedure == "p")
            .unwrap();
        assert!(figures.problem.contains(reason), "{}", figures.problem);
        // It says so once.
        assert_eq!(place.registry.refresh().unwrap(), Loaded::default());
    }
    let loaded = place.write("p.luau", "return function() return accept('three') end");
    assert_eq!(
        (loaded.loaded, loaded.refused),
        (vec!["p".to_owned()], Vec::new())
    );
    assert_eq!(place.outcome(empty_call("p")).text, "three");
    fs::remove_file(place.folder.path().join("procedures/p.luau")).unwrap();
    assert_eq!(place.registry.refresh().unwrap().removed, ["p"]);
    assert_eq!(place.ask("p").status, Status::NotFound);
}

/// A caller who is known hears what is wrong with the file of a procedure, others that something
/// is.
#[test]
fn a_call_of_a_file_that_was_refused_says_why() {
    let place = place(&[("p.luau", "return function( return accept() end")]);
    let told = place.ask("p");
    assert_eq!(told.status, Status::NotFound);
    for part in ["/p is not in use", "p.luau:1:", "`stentor procedure ls`"] {
        assert!(told.reason.contains(part), "{}", told.reason);
    }
    let mut call = empty_call("p");
    call.caller = Caller::Anonymous("192.0.2.1".into());
    let told = place.call(call).reason;
    assert!(told.contains("/p is not in use"), "{told}");
    assert!(!told.contains("p.luau"), "{told}");
}

#[test]
fn a_call_in_flight_finishes_on_the_old_version() {
    let place = good(&[(
        "slow.luau",
        "--[[ procedure\ndeadline = \"60s\"\ngrants = [\"store\"]\n]]
        return function()
            store.set('began', '1')
            while not store.get('go') do end
            return accept('old')
        end",
    )]);
    let running = place.start(empty_call("slow"));
    let shelf = place.registry.store.as_ref().unwrap().shelf("slow", 10_000);
    while shelf.get(b"began").unwrap().is_none() {
        std::thread::yield_now();
    }
    let loaded = place.write("slow.luau", "return function() return accept('new') end");
    assert_eq!(loaded.loaded, ["slow"]);
    assert_eq!(place.outcome(empty_call("slow")).text, "new");
    shelf.set(b"go", b"1", None).unwrap();
    assert_eq!(running.recv().unwrap().text(), "old");
}

#[test]
fn files_that_cannot_be_procedures_are_refused() {
    let place = place(&[
        ("noop.luau", "return function() end"),
        ("two.luau", "return function() end"),
        ("two.toml", "kind = \"program\"\ncommand = [\"/bin/true\"]"),
        ("a b.luau", "return function() end"),
        (
            "gone.toml",
            "kind = \"program\"\ncommand = [\"/nonexistent/program\"]",
        ),
        (
            "data.toml",
            "kind = \"program\"\ncommand = [\"/etc/passwd\"]",
        ),
        (
            "late.luau",
            "-- mine\n--[[ procedure\nanonymous = true\n]]\nreturn function() end",
        ),
        ("notes.txt", "no procedure"),
        (".hidden.luau", "no"),
    ]);
    let refused: BTreeMap<_, _> = place.loaded.refused.iter().cloned().collect();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused["noop"].contains("built in"));
    assert!(refused["two"].contains("remove one"));
    assert!(refused["a b"].contains("letters"));
    assert!(refused["gone"].contains("/nonexistent/program"));
    assert!(refused["data"].contains("may not run it"));
    assert!(refused["late"].contains("late.luau: line 2: a manifest begins"));
    assert_eq!(place.outcome(empty_call("noop")).verdict, Verdict::Accept);
    let nowhere = Settings {
        folder: Some(place.folder.path().join("missing")),
        store: None,
        outside: Outside::default(),
        ..Settings::default()
    };
    assert!(Registry::open(nowhere).is_err());
}

/// Opening a FIFO waits for somebody who writes.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let place = good(&[]);
    let path = place.folder.path().join("procedures/pipe.luau");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let loaded = place.registry.refresh().unwrap();
    assert_eq!(loaded.refused.len(), 1, "{loaded:?}");
    assert!(
        loaded.refused[0]
            .1
            .contains("pipe.luau: it is not a regular file")
    );
}

/// A script whose test takes long keeps nobody else waiting: not those who ask for figures, and not
/// other procedures that have changed.
#[test]
fn nobody_waits_for_a_script_that_is_tested() {
    let place = good(&[("other.luau", "return function() return accept('old') end")]);
    let slow = "return { call = function() end, test = function() while true do end end }";
    let quick = "return function() return accept('new') end";
    for (name, text) in [("a.luau", slow), ("other.luau", quick), ("z.luau", quick)] {
        fs::write(place.folder.path().join("procedures").join(name), text).unwrap();
    }
    std::thread::scope(|scope| {
        let look = scope.spawn(|| place.registry.refresh().unwrap());
        let mut is_new = false;
        while !look.is_finished() {
            assert!(!place.registry.figures().is_empty());
            is_new |= place.ask("other").text() == "new" && place.ask("z").text() == "new";
        }
        let loaded = look.join().unwrap();
        assert_eq!(loaded.loaded, ["other", "z"]);
        assert_eq!(loaded.refused.len(), 1, "{loaded:?}");
        assert!(
            is_new,
            "they are in use before the test of the other one has ended"
        );
    });
}

/// More files than are loaded at a time.
#[test]
fn many_files_are_loaded_together() {
    let place = good(&[]);
    let folder = place.folder.path().join("procedures");
    for number in 0..40 {
        let text = match number % 2 {
            0 => format!("return function() return accept('{number}') end"),
            _ => "return nothing(".to_owned(),
        };
        fs::write(folder.join(format!("p{number}.luau")), text).unwrap();
    }
    let loaded = place.registry.refresh().unwrap();
    assert_eq!((loaded.loaded.len(), loaded.refused.len()), (20, 20));
    assert_eq!(place.ask("p38").text(), "38");
    assert_eq!(place.registry.refresh().unwrap(), Loaded::default());
}

#[test]
fn what_was_never_loaded_is_shown_with_its_reason() {
    let place = place(&[
        ("bad.luau", "return function("),
        ("good.luau", "return function() end"),
    ]);
    let figures = place.registry.figures();
    let names: Vec<_> = figures.iter().map(|one| one.procedure.as_str()).collect();
    assert_eq!(
        names,
        [
            "bad",
            "broadcast",
            "echo",
            "good",
            "history",
            "noop",
            "sizecheck",
            "status"
        ]
    );
    let text = place.outcome(empty_call("status")).result;
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("bad "));
    let words: Vec<_> = lines.next().unwrap().split_whitespace().take(4).collect();
    assert_eq!(words, ["bad", "-", "none", "0"]);
    let reason = lines.next().unwrap();
    assert!(reason.starts_with("  not loaded: bad.luau:1:"), "{reason}");
    let json = place.outcome(with_arguments("status", &[("format", "json")]));
    let all: serde_json::Value = serde_json::from_slice(&json.result).unwrap();
    let all = &all["procedures"];
    assert_eq!(
        (&all[0]["procedure"], &all[0]["kind"]),
        (&"bad".into(), &"none".into())
    );
    assert!(
        all[0]["problem"].as_str().unwrap().contains("bad.luau:1:"),
        "{all}"
    );
    assert_eq!(all[0]["calls"], 0);
    // What is gone is shown no more.
    fs::remove_file(place.folder.path().join("procedures/bad.luau")).unwrap();
    place.registry.refresh().unwrap();
    assert_eq!(place.registry.figures().len(), 7);
}

/// What a test keeps is its own.
#[test]
fn tests_have_a_store_of_their_own() {
    let script = |version: u8| {
        format!(
            "--[[ procedure\nversion = \"{version}\"\ngrants = [\"store\"]\n]]
            store.add('runs', 1)
            return {{
                call = function() return accept(store.get('key') or 'nothing') end,
                test = function()
                    assert(store.get('key') == nil and store.get('runs') == '1')
                    store.set('key', 'of a test')
                    assert(store.get('key') == 'of a test')
                end,
            }}"
        )
    };
    let place = good(&[("p.luau", &script(1))]);
    assert_eq!(place.ask("p").text(), "nothing");
    let shelf = place.registry.store.as_ref().unwrap().shelf("p", 10_000);
    shelf.set(b"key", b"of a call", None).unwrap();
    assert_eq!(place.write("p.luau", &script(2)).loaded, ["p"]);
    assert_eq!(place.ask("p").text(), "of a call");
}
