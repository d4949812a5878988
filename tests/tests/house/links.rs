//! Links of all pages: what they point to is there, heading included.

use crate::markdown::{anchors, prose};
use crate::repository::{files_everywhere, root, text};

/// The links of a page that point into the repository.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page).join("\n");
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://")).collect()
}

/// Why a link of the page at `path` leads nowhere.
fn fault(path: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(f, a)| (f, Some(a)));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = match file {
        "" => path.to_owned(),
        file => root().join(folder).join(file).to_string_lossy().into_owned(),
    };
    if !root().join(&target).exists() {
        return Some(format!("{path}: {link}: no such file"));
    }
    let anchor = anchor?;
    let found = anchors(&text(&target));
    (!found.iter().any(|known| known == anchor))
        .then(|| format!("{path}: {link}: headings are {found:?}"))
}

#[test]
fn every_link_leads_somewhere() {
    let pages = files_everywhere(".md");
    assert!(pages.len() >= 11, "found only {pages:?}");
    let mut checked = 0;
    for path in pages {
        for link in links(&text(&path)) {
            checked += 1;
            assert_eq!(fault(&path, &link), None);
        }
    }
    assert!(checked > 40, "only {checked} links");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page = "[a](x.md) [b](http://x/) `c`\n```\n[d](y.md)\n```\n[e](#z)";
    assert_eq!(links(page), ["x.md", "#z"]);
    assert_eq!(fault("docs/energy.md", "files.md#tables"), None);
    assert_eq!(fault("docs/energy.md", "#the-window"), None);
    assert_eq!(fault("docs/energy.md", "../README.md"), None);
    for broken in ["nothing.md", "files.md#nothing", "#nothing", "README.md"] {
        assert!(fault("docs/energy.md", broken).is_some(), "{broken}");
    }
}
