//! A proxy that leads every URL of the samples to one server.

use std::rc::Rc;

use crate::support::http::{Behavior, Front, Tls, Tunnel, authority};
use crate::support::{Place, Setup};

pub(super) struct Web {
    front: Front,
    _tls: Tls,
    tunnel: Tunnel,
}

impl Web {
    pub(super) fn new(place: &Rc<Place>) -> Self {
        let front = Front::start(place, "web", "--bare --tool echo --tool other", Behavior::default());
        let tls = Tls::before(front.http().address());
        let tunnel = Tunnel::to(tls.address());
        Self { front, _tls: tls, tunnel }
    }

    /// Has the daemon go there.
    pub(super) fn on(&self, setup: Setup) -> Setup {
        let setup = setup.variable("HTTPS_PROXY", &format!("http://{}", self.tunnel.address()));
        setup
            .variable("SSL_CERT_FILE", authority("authority").to_str().expect("text"))
            .variable("LEDGER_HOST", "ledger")
    }

    /// What the requests to a host carried under this name.
    pub(super) fn header(&self, host: &str, name: &str) -> Vec<Option<String>> {
        let requests = self.front.http().requests().into_iter();
        let requests = requests.filter(|request| request.header("host") == Some(host));
        requests.map(|request| request.header(name).map(str::to_owned)).collect()
    }
}
