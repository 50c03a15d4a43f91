//! The text of a scrape, and the page that describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::table::{Kind, METRICS, Metric, SERVER, Unit};
use super::*;
use crate::calls::CallOutcome;
use crate::durations::Operation;

const PAGE: &str = include_str!("../../docs/metrics.md");

/// The name with its unit and the ending of its type.
fn full_name(metric: &Metric) -> String {
    let unit = match metric.unit {
        Some(Unit::Seconds) => "_seconds",
        Some(Unit::Bytes) => "_bytes",
        None => "",
    };
    let ending = match metric.kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    format!("{}{unit}{ending}", metric.prometheus_name())
}

/// The cells of the rows of the tables on the page that begin with a metric.
fn rows() -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn in_backticks(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn page_lists_every_metric_with_its_type_and_labels() {
    let documented: BTreeMap<_, _> = rows().into_iter().map(|cells| (in_backticks(cells[0])[0], cells)).collect();
    let names: BTreeSet<String> = METRICS.iter().map(full_name).collect();
    assert_eq!(names.len(), METRICS.len(), "a name occurs twice");
    assert_eq!(documented.keys().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), names);
    for metric in METRICS {
        let cells = &documented[&*full_name(metric)];
        let labels = in_backticks(cells[2]);
        if metric.kind == Kind::Histogram {
            assert_eq!(in_backticks(cells[1]), [metric.name], "the name in the conventions");
            assert_eq!(labels, metric.labels);
        } else {
            let kind = match metric.kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "counter",
                Kind::Info | Kind::Histogram => "info",
            };
            assert_eq!(cells[1], kind, "{cells:?}");
            let own: Vec<_> = metric.labels.iter().filter(|label| **label != SERVER).copied().collect();
            assert_eq!(labels, own, "{cells:?}");
        }
    }
}

/// A server whose name and tool have all characters that the format escapes.
fn scrape() -> Scrape {
    let server = |name: &str, more: serde_json::Value| -> ServerReport {
        let mut report = json!({
            "name": name, "state": "ready", "tools_exposed": 1, "tools_denied": 0, "calls": 3, "in_flight": 1, "errors": 1,
            "restarts": 2, "skipped_lines": 0, "stray_responses": 0,
        });
        let object = report.as_object_mut().expect("an object");
        object.extend(more.as_object().expect("an object").clone());
        serde_json::from_value(report).expect("a report")
    };
    let usage = json!({"memory_bytes": 4096, "cpu_ms": 1250, "processes": 2});
    let lists = json!([{"kind": "tools", "items": 2, "bytes": 321}]);
    let servers = vec![
        server("a", json!({"usage": usage, "lists": lists, "items_malformed": 3, "items_left_out": 1})),
        server("b", json!({"state": "failed", "disabled": true})),
        server("c", json!({"state": "backoff", "max_instances": 4})),
    ];
    let durations = Durations::default();
    for (target, outcome, ms) in [
        ("say \"hi\"\\\n", CallOutcome::Ok, 3),
        ("say \"hi\"\\\n", CallOutcome::Ok, 400_000),
        ("t", CallOutcome::Error { code: Some(-32602) }, 20),
        ("gone", CallOutcome::ToolError, 1),
    ] {
        let operation = Operation::new("tools/call", Some(Arc::from(target)));
        let name = Arc::from(if target == "gone" { "removed" } else { "a" });
        let labels = Labels { server: Some(&name), ..Labels::of(&operation, outcome) };
        durations.add(Measured::ClientOperation, labels, Duration::from_millis(ms));
    }
    let profile = Arc::from("default");
    let labels = Labels { profile: Some(&profile), protocol: Some("2025-11-25"), ..Labels::default() };
    durations.add(Measured::ServerSession, labels, Duration::from_secs(61));
    Scrape::of_daemon(servers, vec![("default".into(), 2)], &durations, DaemonProcess::read(Duration::ZERO))
}

#[test]
fn text_has_each_value_with_its_labels() {
    let text = encode(scrape(), Format::Prometheus);
    for line in [
        r#"mcpd_server_up{mcpd_server="a"} 1"#,
        r#"mcpd_server_up{mcpd_server="c"} 0"#,
        r#"mcpd_server_restarts_total{mcpd_server="a"} 2"#,
        r#"mcpd_server_instances{mcpd_server="c"} 0"#,
        r#"mcpd_server_instances_max{mcpd_server="c"} 4"#,
        r#"mcpd_server_unanswered_calls{mcpd_server="a",mcpd_state="in_flight"} 1"#,
        r#"mcpd_server_list_size_bytes{mcpd_server="a",mcpd_list="tools"} 321"#,
        r#"mcpd_server_irregular_items{mcpd_server="a",mcpd_treatment="mended"} 2"#,
        r#"mcpd_server_irregular_items{mcpd_server="a",mcpd_treatment="left_out"} 1"#,
        r#"mcpd_server_memory_bytes{mcpd_server="a"} 4096"#,
        r#"mcpd_server_cpu_seconds_total{mcpd_server="a"} 1.25"#,
        r#"mcpd_agents{mcpd_profile="default"} 2"#,
        "# TYPE mcp_client_operation_duration_seconds histogram",
        concat!(
            r#"mcp_client_operation_duration_seconds_count{mcpd_server="a",mcp_method_name="tools/call","#,
            r#"gen_ai_tool_name="say \"hi\"\\\n",gen_ai_operation_name="execute_tool"} 2"#
        ),
        concat!(
            r#"mcp_client_operation_duration_seconds_sum{mcpd_server="a",mcp_method_name="tools/call","#,
            r#"gen_ai_tool_name="t",gen_ai_operation_name="execute_tool",error_type="-32602","#,
            r#"rpc_response_status_code="-32602"} 0.02"#
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}\n{text}");
    }
    assert!(!text.contains("removed"), "{text}");
    assert!(!text.contains(r#"mcpd_server_up{mcpd_server="b"}"#), "a disabled server is not down: {text}");
}

#[test]
fn label_that_a_metric_does_not_list_is_never_written() {
    let text = encode(scrape(), Format::OpenMetrics);
    assert!(text.ends_with("# EOF\n"));
    for metric in METRICS {
        let name = full_name(metric);
        let series = text.lines().filter_map(|line| line.strip_prefix(&*name)?.split_once('{').map(|(_, rest)| rest));
        for labels in series {
            for label in
                labels.split("=\"").filter_map(|part| part.rsplit([',', '{']).next()).filter(|it| !it.contains('}'))
            {
                assert!(label == "le" || metric.labels.contains(&label), "{name}: {label} in {labels}");
            }
        }
    }
}

#[test]
fn format_is_the_one_that_the_client_accepts() {
    for (accept, expected) in [
        (&["application/openmetrics-text", "text/plain"][..], Format::OpenMetrics),
        (&["text/plain"], Format::Prometheus),
        (&[], Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(accept.iter().copied()), expected, "{accept:?}");
    }
}
