//! The reader of edge lists: what it accepts, how it numbers pages, and what it says about mistakes.

use std::path::Path;

use stradsap_gallery::graph::Graph;

fn parse(text: &[u8]) -> Result<Graph, String> {
    Graph::parse(Path::new("g.txt"), text).map_err(|e| e.to_string())
}

/// The links by their ids, sorted.
fn links(graph: &Graph) -> Vec<(u64, u64)> {
    let id = |page: u32| graph.ids()[page as usize];
    let mut links: Vec<_> = (0u32..)
        .zip(graph.links_in())
        .flat_map(|(to, from)| from.iter().map(move |&from| (id(from), id(to))))
        .collect();
    links.sort_unstable();
    links
}

#[test]
fn lines_are_links() {
    let expected = [(0, 7), (7, 0), (7, 9), (9, 0)];
    for text in [
        "0\t7\n7\t0\n7\t9\n9\t0\n",
        "# Nodes: 3\n0 7\r\n7 0\n\n7  9 \n  9\t 0",
        "% konect\n9 0\n7 9\n#7 7\n7 0\n0 7\n",
        "\u{feff}07 0\n7 9\n0 7\n9 00\n",
    ] {
        let graph = parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        assert_eq!(links(&graph), expected, "{text:?}");
        assert_eq!((graph.pages(), graph.links()), (3, 4));
    }
}

#[test]
fn ids_are_of_any_size() {
    let big = u64::MAX;
    let graph = parse(format!("{big} 4194304\n4194303 {big}\n4194304 {big}\n{big} 0\n").as_bytes()).unwrap();
    assert_eq!(links(&graph), [(4194303, big), (4194304, big), (big, 0), (big, 4194304)]);
}

#[test]
fn pages_with_many_links_come_first() {
    let graph = parse(b"5 6\n8 5\n8 6\n8 7\n7 5\n7 6\n").unwrap();
    assert_eq!(graph.ids(), [8, 7, 5, 6]);
    assert_eq!(graph.links_out(), [3, 2, 1, 0]);
    assert_eq!(graph.links_in().collect::<Vec<_>>(), [&[][..], &[0], &[0, 1], &[0, 1, 2]]);
    assert_eq!(graph.links_to(2), [0, 1]);
}

#[test]
fn links_to_oneself_and_repeated_ones_are_kept_and_counted() {
    let graph = parse(b"1 1\n1 2\n2 1\n1 2\n1 2\n1 1\n").unwrap();
    assert_eq!((graph.links(), graph.self_links(), graph.repeated_links()), (6, 2, 3));
    assert_eq!(links(&graph), [(1, 1), (1, 1), (1, 2), (1, 2), (1, 2), (2, 1)]);
    assert_eq!(graph.links_out(), [5, 1]);
}

#[test]
fn strips_are_all_pages_in_order_with_equal_work() {
    let text: String = (0..5000u64).map(|k| format!("{} {}\n", k * k % 701, k * k * k % 97)).collect();
    let graph = parse(text.as_bytes()).unwrap();
    for weight in [1, 60, 1000, 1_000_000] {
        let strips = graph.strips(weight);
        assert!(strips.iter().flat_map(Clone::clone).eq(0..graph.pages()), "{weight}");
        let most = (0..graph.pages()).map(|page| graph.links_to(page).len() + 1).max().unwrap();
        for strip in &strips {
            let work: usize = strip.clone().map(|page| graph.links_to(page).len() + 1).sum();
            assert!(work < weight + most && (work >= weight || strip.end == graph.pages()), "{strip:?}: {work}");
        }
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "g.txt:1: no links; expected lines of two page ids"),
        (b"# FromNodeId ToNodeId\n\n", "g.txt:2: no links; expected lines of two page ids"),
        (b"1 2\n3\n", "g.txt:2: 1 field; expected two page ids"),
        (b"1 2\n\n1 2 0.5\n", "g.txt:3: 3 fields; expected two page ids"),
        (b"1,2\n", "g.txt:1:1: the id is \"1,2\"; expected a whole number below 2^64"),
        (b"1 2\n3 -4\n", "g.txt:2:3: the id is \"-4\"; expected a whole number below 2^64"),
        (b"1 2.0\n", "g.txt:1:3: the id is \"2.0\"; expected a whole number below 2^64"),
        (
            b"18446744073709551616 1\n",
            "g.txt:1:1: the id is \"18446744073709551616\"; expected a whole number below 2^64",
        ),
        (b"1 \xff\n", "g.txt:1:3: the id is \"\u{fffd}\"; expected a whole number below 2^64"),
        (b"FromNodeId ToNodeId\n", "g.txt:1:1: the id is \"FromNodeId\"; expected a whole number below 2^64"),
    ];
    for (text, expected) in cases {
        assert_eq!(&parse(text).expect_err(expected), expected);
    }
}
