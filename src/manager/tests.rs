//! Views of servers without tasks, for tests of what reads views.

use std::sync::Arc;

use super::view::{Enablement, Exposing, Member, View};
use crate::catalog::Names;
use crate::config::ServerConfig;
use crate::naming::Naming;
use crate::server::tests::TestServer;

/// The view of these servers, with the lists that they have published.
pub(crate) fn view(servers: &[(Arc<ServerConfig>, TestServer)], is_settled: bool) -> Arc<View> {
    let member = |(config, server): &(Arc<ServerConfig>, TestServer)| {
        let (handle, config) = (server.handle.clone(), Arc::clone(config));
        let lists = handle.published().lists.clone();
        Member { handle, config, enablement: Enablement::Enabled, lists, refused: None, changes: None }
    };
    let exposing = Exposing { naming: Naming::Prefixed, max_message: usize::MAX };
    Arc::new(View::new(&mut Names::default(), exposing, servers.iter().map(member).collect(), is_settled))
}
