//! What is to be said of a configuration is said without starting anything.

use crate::support::Place;

#[test]
fn the_schema_is_printed_without_a_daemon() {
    let schema = Place::new().mcpd(&["schema"]).expect_code(0).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["daemon"]["properties"]["max_name_length"]["default"], 53);
}
