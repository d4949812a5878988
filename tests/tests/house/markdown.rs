//! Pages of documentation, as far as tests need to understand them: headings, tables, code, links.

/// The rows of the first table under a heading, cells trimmed, without the two lines above the rows. Panics where there
/// is none, so that a renamed heading does not empty a check.
pub(crate) fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = section(page, heading)
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
            let inner = inner.unwrap_or_else(|| panic!("a row that does not end: {line}"));
            inner.split('|').map(|cell| cell.trim().to_owned()).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "no table under the heading {heading:?}");
    rows
}

/// What stands between a heading and the next one of any level.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let mut start = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        if line.starts_with('#') {
            if let Some(start) = start {
                return &page[start..at];
            }
            if line.trim_start_matches('#').trim() == heading {
                start = Some(at + line.len());
            }
        }
        at += line.len();
    }
    start.map_or_else(|| panic!("no heading {heading:?}"), |start| &page[start..])
}

/// The texts in backticks.
pub(crate) fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The anchor that a heading gets: lower case, blanks to hyphens, other marks dropped.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The anchors of a page.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// The lines outside of fenced blocks.
pub(crate) fn prose(page: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let outside = page.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    });
    outside.collect()
}

#[test]
fn a_page_is_read_as_it_stands() {
    let page =
        "# A\n\n## The `b`, c\n\n| x | y |\n|---|---|\n| `1` | |\n\n```\n# no heading\n```\n## D\n";
    assert_eq!(table(page, "The `b`, c"), [["`1`", ""]]);
    assert_eq!(section(page, "D"), "");
    assert_eq!(anchors(page), ["a", "the-b-c", "d"]);
    assert_eq!(code("`a` b `c`"), ["a", "c"]);
}
