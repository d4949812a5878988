//! `wattscribe fleet status`: a fleet's document for people, or for other programs.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wattscribe_scraper::fetch::Fetcher;
use wattscribe_scraper::target::Target;

use super::wire::{Device, Document};
use super::yaml::yaml;
use crate::log::{LiveLine, chain};

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Where the fleet's document is.
    #[arg(default_value = "http://127.0.0.1:9744/api/v1/fleet", value_name = "URL")]
    url: Target,

    /// How it is shown.
    #[arg(long, short, value_enum, default_value_t = Shape::Tree, value_name = "SHAPE")]
    output: Shape,

    /// Shows it again and again, every two seconds.
    #[arg(long)]
    watch: bool,
}

/// How a document is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Nodes, and below each its devices.
    Tree,
    /// A line for each device.
    Table,
    /// The document as it is.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How often it is shown.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// The longest that the collector may take: it has its answer ready.
const TIMEOUT: Duration = Duration::from_secs(5);

/// To the top of the screen, and clear it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the command.
pub(crate) fn run(args: StatusArgs) -> ExitCode {
    LiveLine::default().start_log(tracing::Level::WARN);
    loop {
        let shown = fetch(&args.url).and_then(|body| show(&body, args.output));
        let is_terminal = io::stdout().is_terminal();
        let text = match shown {
            Ok(text) => text,
            Err(reason) if args.watch => format!("{reason}\n"),
            Err(reason) => {
                tracing::error!("{reason}");
                return ExitCode::FAILURE;
            }
        };
        let clear = if args.watch && is_terminal { CLEAR } else { "" };
        // A reader that has gone wants no more.
        if write!(io::stdout(), "{clear}{text}").and_then(|()| io::stdout().flush()).is_err()
            || !args.watch
        {
            return ExitCode::SUCCESS;
        }
        sleep(WATCH_EVERY);
    }
}

fn fetch(from: &Target) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| chain(&error))?;
    let url = &from.url;
    let fetcher = Fetcher::new(TIMEOUT, url.scheme() == "https").map_err(|error| chain(&error))?;
    runtime
        .block_on(fetcher.fetch_json(url))
        .map_err(|failure| format!("{}: {failure}", from.shown_url()))
}

/// A document as text.
pub(crate) fn show(body: &[u8], shape: Shape) -> Result<String, String> {
    let not_one =
        |error: serde_json::Error| format!("the answer is no document of a fleet: {error}");
    let value: serde_json::Value = serde_json::from_slice(body).map_err(not_one)?;
    match shape {
        Shape::Json => {
            serde_json::to_string_pretty(&value).map(|text| text + "\n").map_err(not_one)
        }
        Shape::Yaml => Ok(yaml(&value)),
        Shape::Tree => {
            serde_json::from_value(value).map(|document| tree(&document)).map_err(not_one)
        }
        Shape::Table => {
            serde_json::from_value(value).map(|document| table(&document)).map_err(not_one)
        }
    }
}

fn head(document: &Document) -> String {
    format!(
        "{}: {} of {} agents up, {} devices, {} stale, {:.1} W measured\n",
        document.scraped_at,
        document.agents_up,
        document.agents_total,
        document.devices.len(),
        document.stale_devices,
        document.total_watts
    )
}

/// The power of a device in words.
fn power(device: &Device) -> String {
    match (&device.more.reason, device.stale, device.suspended) {
        (_, true, _) if device.power_watts < 0.0 || device.suspended => "stale".to_owned(),
        (_, true, _) => format!("stale ({:.1} W)", device.power_watts),
        (_, _, true) => "suspended".to_owned(),
        (Some(reason), ..) => format!("unmeasured ({reason})"),
        (None, ..) if device.power_watts < 0.0 => "unmeasured".to_owned(),
        (None, ..) => format!("{:.1} W", device.power_watts),
    }
}

fn age(device: &Device) -> String {
    device.more.age_ms.map(|ms| format!("{:.1} s ago", ms as f64 / 1e3)).unwrap_or_default()
}

fn tree(document: &Document) -> String {
    let mut text = head(document);
    let mut node = None;
    for device in &document.devices {
        if node != Some(&device.node) {
            text.push_str(&format!("{}\n", device.node));
            node = Some(&device.node);
        }
        let line = format!(
            "  {} {:<13} {:<9} {:>16} {:<8} {}",
            device.kind,
            device.pci,
            device.driver,
            power(device),
            device.more.scope,
            age(device)
        );
        text.push_str(&format!("{}\n", line.trim_end()));
        for (component, watts) in &device.components {
            text.push_str(&format!("    {component:<10} {watts:>29.1} W\n"));
        }
    }
    text
}

fn table(document: &Document) -> String {
    let node = document.devices.iter().map(|device| device.node.len()).max().unwrap_or(4).max(4);
    let mut text = head(document);
    text.push_str(&format!(
        "{:<node$}  KIND  {:<13}  {:<9}  {:>16}  {:<8}  {:<12}  UUID\n",
        "NODE", "PCI", "DRIVER", "POWER", "SCOPE", "AGE"
    ));
    for device in &document.devices {
        let line = format!(
            "{:<node$}  {:<4}  {:<13}  {:<9}  {:>16}  {:<8}  {:<12}  {}",
            device.node,
            device.kind,
            device.pci,
            device.driver,
            power(device),
            device.more.scope,
            age(device),
            device.more.uuid
        );
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document of another collector: nothing beside the contract.
    const FOREIGN: &str = r#"{"scrapedAt":"2026-08-13T10:00:00Z","agentsTotal":1,"agentsUp":1,"totalWatts":18,"staleDevices":0,"devices":[
        {"node":"n","kind":"gpu","pci":"0000:c3:00.0","vendorId":"1002","deviceId":"1586","driver":"amdgpu","powerWatts":18,"components":{"gfx":8.245},"suspended":false,"stale":false},
        {"node":"n","kind":"npu","pci":"0000:c4:00.1","vendorId":"1022","deviceId":"17f0","driver":"amdxdna","powerWatts":0,"suspended":true,"stale":false}]}"#;

    #[test]
    fn a_document_of_any_collector_is_shown() {
        let tree = show(FOREIGN.as_bytes(), Shape::Tree).unwrap();
        let expected = "2026-08-13T10:00:00Z: 1 of 1 agents up, 2 devices, 0 stale, 18.0 W measured\nn\n  gpu 0000:c3:00.0  amdgpu              18.0 W\n    gfx                                  8.2 W\n  npu 0000:c4:00.1  amdxdna          suspended\n";
        assert_eq!(tree, expected);
        let table = show(FOREIGN.as_bytes(), Shape::Table).unwrap();
        assert!(table.lines().nth(3).unwrap().contains("npu   0000:c4:00.1"), "{table}");
        let yaml = show(FOREIGN.as_bytes(), Shape::Yaml).unwrap();
        assert!(yaml.contains("scrapedAt: \"2026-08-13T10:00:00Z\"\n"), "{yaml}");
        for shape in [Shape::Tree, Shape::Json] {
            assert!(
                show(b"{not json", shape).unwrap_err().starts_with("the answer is no document")
            );
        }
    }
}
