//! Who runs the server. PostgreSQL refuses to run as root, so root starts it as an account without rights.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::command::{Result, output};

/// Accounts that root gives the server to, the better one first.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// The account that the server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// Whoever runs this command.
    Own,
    /// Another one, because this command runs as root.
    Other {
        /// Its user id.
        user: u32,
        /// Its group id.
        group: u32,
    },
}

impl Account {
    /// The account for this machine and this caller.
    pub(crate) fn choose() -> Result<Self> {
        if output(Command::new("id").arg("-u"))?.trim() != "0" {
            return Ok(Self::Own);
        }
        let passwd = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        ACCOUNTS.iter().find_map(|name| find(&passwd, name)).ok_or_else(|| {
            "PostgreSQL does not run as root, and there is no account postgres or nobody to run it as".into()
        })
    }

    /// Makes `command` run as this account.
    pub(crate) fn apply(self, command: &mut Command) -> &mut Command {
        match self {
            Self::Own => command,
            Self::Other { user, group } => command.uid(user).gid(group),
        }
    }

    /// Gives `path` to this account.
    pub(crate) fn own(self, path: &Path) -> Result {
        match self {
            Self::Own => Ok(()),
            Self::Other { user, group } => {
                chown(path, Some(user), Some(group)).map_err(|error| format!("{}: {error}", path.display()).into())
            }
        }
    }

    /// As an argument of the keeper.
    pub(crate) fn to_argument(self) -> String {
        match self {
            Self::Own => "own".to_owned(),
            Self::Other { user, group } => format!("{user}:{group}"),
        }
    }

    /// Reads what [`Account::to_argument`] wrote.
    pub(crate) fn from_argument(text: &str) -> Result<Self> {
        if text == "own" {
            return Ok(Self::Own);
        }
        let (user, group) = text.split_once(':').ok_or("an account is `own` or `user:group`")?;
        Ok(Self::Other { user: user.parse()?, group: group.parse()? })
    }
}

/// The entry of `name` in the text of /etc/passwd.
fn find(passwd: &str, name: &str) -> Option<Account> {
    let mut fields = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let matches = fields.next() == Some(name);
        matches.then_some(fields)
    })?;
    let user = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Account::Other { user, group })
}

#[cfg(test)]
mod tests {
    //! Accounts are found by their whole name.

    use super::{Account, find};

    #[test]
    fn account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(find(passwd, "postgres"), Some(Account::Other { user: 101, group: 104 }));
        assert_eq!(find(passwd, "nobody"), None);
    }

    #[test]
    fn argument_names_the_same_account() {
        for account in [Account::Own, Account::Other { user: 101, group: 104 }] {
            assert_eq!(Account::from_argument(&account.to_argument()).expect("written by us"), account);
        }
    }
}
