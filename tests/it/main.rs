//! Black-box promises of the real binary, one module each.

mod support;

mod cli;
mod closes_its_sockets;
mod connect;
mod demo;
mod denies_tools;
mod ends_calls;
mod ends_unsent_calls;
mod examples;
mod harness;
mod hygiene;
mod isolates_agents;
mod library;
mod lists_tools;
mod negotiates;
mod owns_its_sockets;
mod refuses_bad_config;
mod refuses_tricks;
mod reloads;
mod reports_status;
mod routes_calls;
mod runs_as_a_unit;
mod serves_on;
mod serves_rmcp;
mod shares_instances;
mod spares_strangers;
mod stops_every_child;
mod stops_in_order;
mod survives_crashes;
mod survives_hangs;
mod survives_lines;
mod survives_noise;
mod survives_starts;
mod tells_why;
mod tidy;
