//! Checks the owner and mode of a configuration file: anyone who can write to it can make mcpd run any program.

use std::io;

use super::super::interpolate::Permissions;

/// The error for a file that `user`, who runs mcpd, cannot trust.
pub(super) fn permission_error(file: Permissions, user: u32) -> Option<io::Error> {
    let Permissions { owner, group, mode } = file;
    let complaint = if owner != user && owner != 0 {
        format!("it belongs to user {owner}, who could have mcpd run any program as user {user}: `chown` it")
    } else if mode & 0o002 != 0 {
        format!("everybody may write to it (mode {mode:04o}), and have mcpd run any program: `chmod o-w` it")
    } else if mode & 0o020 != 0 && !file.has_private_group() {
        format!("group {group} may write to it (mode {mode:04o}), and have mcpd run any program: `chmod g-w` it")
    } else {
        return None;
    };
    Some(io::Error::new(io::ErrorKind::PermissionDenied, complaint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nobody_else_can_write_are_trusted() {
        let check = |(owner, group, mode), expected: Option<&str>| {
            let found = permission_error(Permissions { mode, owner, group }, 1000).map(|error| error.to_string());
            let found = found.as_deref();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        };
        for fine in [(1000, 1000, 0o644), (1000, 1000, 0o664), (1000, 100, 0o644), (0, 0, 0o664), (0, 50, 0o640)] {
            check(fine, None);
        }
        check((1001, 1000, 0o600), Some("belongs to user 1001"));
        check((1000, 1000, 0o666), Some("everybody may write to it (mode 0666)"));
        check((1000, 1000, 0o602), Some("everybody"));
        check((1000, 100, 0o664), Some("group 100 may write to it (mode 0664)"));
        check((0, 1000, 0o664), Some("group 1000"));
    }
}
