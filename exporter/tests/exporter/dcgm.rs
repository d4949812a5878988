//! CPU rails through an engine that is really connected to: the lines that readers know, which rung holds,
//! what a set-up gives back, and engines that restart or stand still.

use wattscribe_exporter::ladder::{Chosen, Ground, Rung, SourceChoice, climb};
use wattscribe_standins::{
    Behaviour, Blank, BlankKind, Block, DcgmReturn, DcgmScript, Entity, EntityField, Stamp, Value,
    unbalanced,
};

use crate::fixture::{Served, Tree, eventually, samples, value};
use crate::superchip::Engines;

fn nothing() -> Tree {
    Tree::new::<&str>(&[])
}

fn served(engines: &Engines) -> Served {
    Served::start(&engines.config(&nothing(), SourceChoice::Dcgm))
}

/// What the ladder says of DCGM alone.
fn rung(engines: &Engines) -> Result<Rung, String> {
    match climb(&Ground::of(&engines.config(&nothing(), SourceChoice::Dcgm)), None) {
        Ok(Chosen::Library { thread, .. }) => {
            let has_sys_io = thread.cells().iter().any(|cell| cell.sensor.id.ends_with("1132"));
            Ok(if has_sys_io { Rung::Dcgm } else { Rung::Dcgm1130 })
        }
        Ok(Chosen::Files { .. }) => unreachable!("only DCGM was asked for"),
        Err(reasons) => Err(reasons.to_string()),
    }
}

#[test]
fn lines_are_those_that_readers_know() {
    let script = DcgmScript::new([
        Entity::new(0).watts(1130, 50.149).watts(1132, 6.125),
        Entity::new(1)
            .watts(1130, 46.765)
            .with(1132, Value::Blank { kind: BlankKind::Blank, blank: Blank::Double }),
    ]);
    let engines = Engines::new(script);
    let page = served(&engines).page();
    let mut lines = page.lines();
    assert!(lines.next().unwrap().starts_with("# HELP cpu_power_dcgm_watts "));
    assert_eq!(lines.next(), Some("# TYPE cpu_power_dcgm_watts gauge"));
    assert_eq!(
        samples(&page, "cpu_power_dcgm_watts"),
        [
            r#"cpu_power_dcgm_watts{socket="0",field_id="1130",source="dcgm"} 50.149000"#,
            r#"cpu_power_dcgm_watts{socket="0",field_id="1132",source="dcgm"} 6.125000"#,
            r#"cpu_power_dcgm_watts{socket="1",field_id="1130",source="dcgm"} 46.765000"#,
        ]
    );
    let withheld = value(&page, "power_withheld", &[r#"sensor="cpu1/1132",reason="blank""#]);
    assert_eq!(withheld, Some(1.0), "{page}");
    let selected = [r#"source="dcgm",rung="dcgm""#];
    assert_eq!(value(&page, "power_source_selected", &selected), Some(1.0), "{page}");
}

#[test]
fn cpus_stand_in_the_order_of_their_numbers() {
    let entities = [10, 2, 0].map(|id| Entity::new(id).watts(1130, 50.0).watts(1132, 5.0));
    let page = served(&Engines::new(DcgmScript::new(entities))).page();
    let order: Vec<&str> = samples(&page, "cpu_power_dcgm_watts")
        .into_iter()
        .map(|line| line.split_once('{').unwrap().1.split_once(",source").unwrap().0)
        .collect();
    let expected = [0, 2, 10]
        .map(|cpu| [1130, 1132].map(|field| format!(r#"socket="{cpu}",field_id="{field}""#)));
    assert_eq!(order, expected.concat(), "{page}");
}

#[test]
fn a_rung_is_taken_only_with_a_live_rail() {
    let two = |rail: f64| Engines::of(&[(rail, 6.0)]);
    assert_eq!(rung(&two(50.0)), Ok(Rung::Dcgm));

    let mut refused = two(50.0);
    let refuse = |script: &mut DcgmScript| {
        script.watch_refused.insert(1132, DcgmReturn::NotSupported);
    };
    refused.dcgm.change(refuse).unwrap();
    assert_eq!(rung(&refused), Ok(Rung::Dcgm1130));
    let page = served(&refused).page();
    let selected = [r#"source="dcgm",rung="dcgm_1130""#];
    assert_eq!(value(&page, "power_source_selected", &selected), Some(1.0), "{page}");

    let dead = "1130+1132: no CPU rail reads above zero (cpu0 zero), 1130: no CPU rail reads above zero (cpu0 zero)";
    let cases = [
        (two(0.0), dead),
        (Engines::new(DcgmScript::new([])), "dcgm: the engine knows no CPU"),
        (
            Engines::new(DcgmScript::new([Entity::new(0).watts(1132, 6.0)])),
            "no CPU rail reads above zero (cpu0 not_supported)",
        ),
    ];
    for (engines, reason) in cases {
        let found = rung(&engines).unwrap_err();
        assert!(found.contains(reason), "{found:?} without {reason:?}");
        assert_eq!(unbalanced(&engines.dcgm.calls().unwrap()), Vec::<String>::new(), "{reason}");
    }
}

#[test]
fn an_engine_of_the_system_comes_before_one_of_our_own() {
    let symbols = |engines: &Engines| -> Vec<String> {
        let calls = engines.dcgm.calls().unwrap().into_iter();
        calls
            .map(|call| call.symbol)
            .filter(|symbol| symbol.contains("onnect") || symbol.contains("Embedded"))
            .collect()
    };
    let system = Engines::of(&[(50.0, 6.0)]);
    assert_eq!(rung(&system), Ok(Rung::Dcgm));
    assert_eq!(symbols(&system), ["dcgmConnect", "dcgmDisconnect"]);

    let mut own = Engines::of(&[(50.0, 6.0)]);
    own.dcgm.change(|script| script.engine.running = false).unwrap();
    assert_eq!(rung(&own), Ok(Rung::Dcgm));
    assert_eq!(symbols(&own), ["dcgmConnect", "dcgmStartEmbedded", "dcgmStopEmbedded"]);

    let mut none = Engines::of(&[(50.0, 6.0)]);
    let change = |script: &mut DcgmScript| {
        script.engine.running = false;
        script.embedded_error = Some(DcgmReturn::RequiresRoot);
    };
    none.dcgm.change(change).unwrap();
    let reason = rung(&none).unwrap_err();
    let expected = "no engine at 127.0.0.1 (dcgmConnect returned -21 (no connection to an engine)) and none here (dcgmStartEmbedded returned -29 (root is required))";
    assert!(reason.contains(expected), "{reason}");
    assert_eq!(unbalanced(&none.dcgm.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn a_set_up_that_fails_half_way_gives_back_what_it_took() {
    let calls = [
        "dcgmInit",
        "dcgmGetEntityGroupEntities",
        "dcgmGroupCreate",
        "dcgmGroupAddEntity",
        "dcgmFieldGroupCreate",
        "dcgmWatchFields",
        "dcgmUpdateAllFields",
        "dcgmEntitiesGetLatestValues",
    ];
    for call in calls {
        let script = Engines::of(&[(50.0, 6.0), (46.0, 6.0)]).dcgm.script().clone();
        let script = script.call(call, Behaviour::fails(DcgmReturn::GenericError));
        let engines = Engines::new(DcgmScript { log: None, ..script });
        let reason = rung(&engines).unwrap_err();
        assert!(reason.contains(&format!("{call} returned -3")), "{call}: {reason}");
        let calls = engines.dcgm.calls().unwrap();
        assert!(calls.iter().any(|made| made.symbol == call), "{call} was never called");
        assert_eq!(unbalanced(&calls), Vec::<String>::new(), "{call}");
    }
}

#[test]
fn an_engine_that_restarts_is_connected_to_again() {
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    let served = served(&engines);
    let read = || samples(&served.page(), "cpu_power_dcgm_watts").len();
    eventually("it is read", || read() == 2);
    engines.dcgm.change(|script| script.engine.running = false).unwrap();
    engines.dcgm.change(|script| script.embedded_error = Some(DcgmReturn::RequiresRoot)).unwrap();
    eventually("it is down", || read() == 0);
    let page = served.page();
    for sensor in ["cpu0/1130", "cpu0/1132", "library"] {
        let labels = format!(r#"sensor="{sensor}",reason="disconnected""#);
        assert_eq!(value(&page, "power_withheld", &[&labels]), Some(1.0), "{page}");
    }
    assert_eq!(served.get("/readyz").status, 503);
    assert_eq!(served.get("/health").status, 200);
    engines.dcgm.change(DcgmScript::restart).unwrap();
    eventually("it is read again", || read() == 2);
    drop(served);
    assert_eq!(unbalanced(&engines.dcgm.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn an_engines_own_time_is_that_of_the_reading() {
    let mut engines = Engines::of(&[(50.0, 6.0), (46.0, 6.0)]);
    let served = served(&engines);
    let at = |sensor: &str| {
        let sensor = format!(r#"sensor="{sensor}""#);
        value(&served.page(), "power_reading_timestamp_seconds", &[&sensor])
    };
    let withheld = |sensor: &str, reason: &str| {
        let labels = format!(r#"sensor="{sensor}",reason="{reason}""#);
        value(&served.page(), "power_withheld", &[&labels]).is_some()
    };
    let first = at("cpu0/1130").unwrap();
    eventually("it is sampled again", || at("cpu0/1130").is_some_and(|at| at > first));
    let stamp = |engines: &mut Engines, stamp: Stamp| {
        let set = |script: &mut DcgmScript| script.field_mut(0, 1130).unwrap().stamp = stamp;
        engines.dcgm.change(set).unwrap();
    };
    // The engine goes on answering with a value that it no longer samples.
    stamp(&mut engines, Stamp::Still);
    eventually("what stands still grows old", || withheld("cpu0/1130", "stale"));
    assert!(at("cpu1/1130").is_some(), "the other CPU is read on");
    stamp(&mut engines, Stamp::AtUs(0));
    eventually("no time is no sample", || withheld("cpu0/1130", "blank"));
    stamp(&mut engines, Stamp::AtUs(i64::MAX / 2));
    eventually("a time to come is no time", || withheld("cpu0/1130", "ahead"));
    stamp(&mut engines, Stamp::Advancing);
    eventually("it is sampled again", || at("cpu0/1130").is_some());
}

#[test]
fn what_is_stamped_for_another_cpu_is_not_this_ones() {
    let mut engines = Engines::of(&[(50.0, 6.0), (46.0, 5.0)]);
    let served = served(&engines);
    let strange = |script: &mut DcgmScript| {
        let field: &mut EntityField = script.field_mut(0, 1130).unwrap();
        field.stamped_entity = Some(9);
    };
    engines.dcgm.change(strange).unwrap();
    eventually("it is missed", || {
        let labels = r#"sensor="cpu0/1130",reason="not_found""#;
        value(&served.page(), "power_withheld", &[labels]).is_some()
    });
    let others = samples(&served.page(), "cpu_power_dcgm_watts").len();
    assert_eq!(others, 3);
}

#[test]
fn cpus_that_an_engine_gains_are_read() {
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    let served = served(&engines);
    let sockets = || samples(&served.page(), "cpu_power_dcgm_watts").len();
    eventually("it is read", || sockets() == 2);
    let gains = |script: &mut DcgmScript| {
        script.entities.push(Entity::new(5).watts(1130, 46.0).watts(1132, 5.0));
    };
    engines.dcgm.change(gains).unwrap();
    eventually("both are read", || sockets() == 4);
    assert!(samples(&served.page(), "power_withheld").is_empty());
    drop(served);
    assert_eq!(unbalanced(&engines.dcgm.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn an_engine_that_restarts_during_set_up_is_asked_once_more() {
    let script = Engines::of(&[(50.0, 6.0)]).dcgm.script().clone();
    let blocks = Behaviour::blocks(Block::UntilChanged);
    let mut engines =
        Engines::new(DcgmScript { log: None, ..script.call("dcgmWatchFields", blocks) });
    let config = engines.config(&nothing(), SourceChoice::Dcgm);
    let found = std::thread::scope(|scope| {
        let climbing =
            scope.spawn(|| climb(&Ground::of(&config), None).map(|chosen| chosen.rung()));
        let restart = |script: &mut DcgmScript| {
            script.restart();
            script.calls.clear();
        };
        eventually("it is set up", || {
            engines.dcgm.calls().unwrap().iter().any(|call| call.symbol == "dcgmWatchFields")
        });
        engines.dcgm.change(restart).unwrap();
        climbing.join().unwrap()
    });
    assert_eq!(found.map_err(|reasons| reasons.to_string()), Ok(Rung::Dcgm));
    assert_eq!(unbalanced(&engines.dcgm.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn the_page_says_which_engine_answers() {
    for (is_running, engine) in [(true, "127.0.0.1"), (false, "embedded")] {
        let mut engines = Engines::of(&[(50.0, 6.0)]);
        engines.dcgm.change(|script| script.engine.running = is_running).unwrap();
        let page = served(&engines).page();
        let labels = format!(r#"source="dcgm",engine="{engine}""#);
        assert_eq!(value(&page, "power_engine_info", &[&labels]), Some(1.0), "{page}");
    }
}
