//! A source that dies for good is replaced by the next that lives, and the page says so.

use std::time::Duration;

use wattscribe_exporter::args::Config;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_standins::{DcgmReturn, DcgmScript};

use crate::fixture::{Served, Tree, eventually, samples, value};
use crate::superchip::Engines;

/// Longer than a source needs to be noticed, and short for a test.
const DEAD_AFTER: Duration = Duration::from_secs(2);

const METER: &str = "devices/ACPI000D:00/hwmon/hwmon0/power1_average";

fn selected(page: &str) -> String {
    let lines = samples(page, "power_source_selected");
    assert_eq!(lines.len(), 1, "{page}");
    lines[0].split("rung=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// The families of CPU power that have samples.
fn measured(page: &str) -> Vec<&'static str> {
    let families = ["cpu_power_acpi_watts", "cpu_power_dcgm_watts", "cpu_power_rapl_watts"];
    families.into_iter().filter(|family| !samples(page, family).is_empty()).collect()
}

#[test]
fn a_source_that_dies_for_good_is_replaced_and_never_mixed() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    let config = engines.config(&tree, SourceChoice::Auto);
    let served = Served::start(&Config { dead_after: DEAD_AFTER, ..config });
    assert_eq!(selected(&served.page()), "acpi");
    assert!(engines.dcgm.calls().unwrap().is_empty(), "what is not needed is not touched");

    tree.write(METER, "0");
    eventually("DCGM is chosen", || {
        let page = served.page();
        assert!(measured(&page).len() <= 1, "two meanings on one page: {page}");
        selected(&page) == "dcgm"
    });
    eventually("it is read", || measured(&served.page()) == ["cpu_power_dcgm_watts"]);
    assert_eq!(served.get("/readyz").status, 200);

    tree.write(METER, "98029000");
    let down = |script: &mut DcgmScript| {
        script.engine.running = false;
        script.embedded_error = Some(DcgmReturn::RequiresRoot);
    };
    engines.dcgm.change(down).unwrap();
    eventually("the meter is chosen again", || selected(&served.page()) == "acpi");
    eventually("it is read", || measured(&served.page()) == ["cpu_power_acpi_watts"]);
}

#[test]
fn a_source_that_answers_when_it_is_asked_once_more_stays() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let engines = Engines::of(&[(50.0, 6.0)]);
    let config = engines.config(&tree, SourceChoice::Auto);
    let served = Served::start(&Config { dead_after: 4 * DEAD_AFTER, ..config });
    tree.write(METER, "4294967295000");
    // After the ninth failure in a row, some six seconds on, the pause is 6.4 s: longer than what is left of the time
    // until it is given up.
    let failed = || {
        let labels = [r#"source="acpi",reason="sensor_unknown""#];
        value(&served.page(), "power_read_errors_total", &labels).unwrap()
    };
    eventually("it has failed for long", || failed() >= 9.0);
    tree.write(METER, "98029000");
    eventually("it is read again", || !measured(&served.page()).is_empty());
    assert_eq!(measured(&served.page()), ["cpu_power_acpi_watts"]);
    assert!(engines.dcgm.calls().unwrap().is_empty(), "no other source was looked for");
}

#[test]
fn a_source_that_was_asked_for_is_not_left() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    let config = engines.config(&tree, SourceChoice::Dcgm);
    let served = Served::start(&Config { dead_after: Duration::from_millis(100), ..config });
    let down = |script: &mut DcgmScript| {
        script.engine.running = false;
        script.embedded_error = Some(DcgmReturn::RequiresRoot);
    };
    engines.dcgm.change(down).unwrap();
    let labels = r#"sensor="library",reason="disconnected""#;
    eventually("it is down", || value(&served.page(), "power_withheld", &[labels]).is_some());
    // Failed attempts to connect are counted: there have been several since it was reconsidered.
    let failed =
        || value(&served.page(), "power_read_errors_total", &[r#""disconnected""#]).unwrap();
    eventually("it is tried again and again", || failed() > 4.0);
    assert_eq!(selected(&served.page()), "dcgm");
    assert_eq!(measured(&served.page()), Vec::<&str>::new());
    engines.dcgm.change(DcgmScript::restart).unwrap();
    eventually("it is back", || measured(&served.page()) == ["cpu_power_dcgm_watts"]);
}
