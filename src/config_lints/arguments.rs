//! Secrets in arguments, which every user of the machine can see.

use super::Context;
use crate::config::ServerConfig;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::Template;
use crate::config::notes::{Note, Use};
use crate::config::secret;

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let args = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Arg);
    let args: Vec<_> = args.map(|(server, note, _, template)| Argument { server, note, template }).collect();
    args.chunk_by(|one, next| one.server.name == next.server.name).flat_map(of_server).collect()
}

struct Argument<'a> {
    server: &'a ServerConfig,
    note: &'a Note<'a>,
    template: &'a Template,
}

fn of_server(args: &[Argument<'_>]) -> Vec<Diagnostic> {
    let texts: Vec<_> = args.iter().map(|arg| arg.template.source()).collect();
    let secrets = secret::in_arguments(&texts);
    let is_secret = |(index, arg): &(usize, &Argument<'_>)| arg.template.names_secret() || secrets.contains(index);
    let warning = |(_, arg): (usize, &Argument<'_>)| {
        let message = format!("an argument of `{}` is a secret, and the process list shows it", arg.server.name);
        let help = "give it in `env` if the server supports that: only this user can read it there";
        arg.note.warning(message, help)
    };
    args.iter().enumerate().filter(is_secret).map(warning).collect()
}
