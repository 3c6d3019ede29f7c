//! The errors of connecting that stay however often it is tried, as sentences that say what to do.

use crate::{
    access::{Access, Login},
    error::is_not_looked_up,
};
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind as SetupError, DbError,
    MetadataError, NewSessionError,
};
use std::{io, path::Path};

/// Returns why the nodes do not take this client, or this client does not take the nodes; `None` for errors that may
/// pass.
pub(crate) fn refusal(error: &NewSessionError, access: &Access) -> Option<String> {
    match connection_error(error)? {
        ConnectionError::ConnectionSetupRequestError(error) => {
            of_login(error.get_error(), access.login.as_ref())
        }
        ConnectionError::IoError(error) => of_tls(error, access.tls_ca.as_deref()?),
        _ => None,
    }
}

/// Returns what may be the reason of an error that may pass; empty if nothing points to one.
pub(crate) fn hint(error: &NewSessionError, access: &Access) -> &'static str {
    let Some(ConnectionError::ConnectionSetupRequestError(error)) = connection_error(error) else {
        return "";
    };
    match error.get_error() {
        SetupError::BrokenConnection(_) if access.tls_ca.is_none() => {
            " (nodes that ask for TLS end a connection without it: --kv.tls-ca)"
        }
        _ => "",
    }
}

/// Returns the error of the last node that was tried.
fn connection_error(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
            ConnectionPoolError::Broken { last_connection_error },
        )) => Some(last_connection_error),
        _ => None,
    }
}

fn of_login(error: &SetupError, login: Option<&Login>) -> Option<String> {
    match (error, login) {
        (SetupError::MissingAuthentication, _) => Some(
            "the nodes ask for credentials; name a role with --kv.user, and the file of its password with --kv.password-file"
                .to_owned(),
        ),
        (SetupError::DbError(DbError::AuthenticationError, said), Some(login))
            if !is_not_looked_up(said) =>
        {
            let Login { user, password_file } = login;
            Some(format!(
                "the nodes refuse the role `{user}` with the password in {} ({said}); correct the file, or name another role with --kv.user and --kv.password-file",
                password_file.display()
            ))
        }
        _ => None,
    }
}

fn of_tls(error: &io::Error, authority: &Path) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match error {
        rustls::Error::InvalidCertificate(_) => Some(format!(
            "the certificate of a node is not accepted ({error}); expected one that an authority in {} signed and that names the IP address of the node: give the node such a certificate, or name its authority with --kv.tls-ca",
            authority.display()
        )),
        rustls::Error::InvalidMessage(_) => Some(
            "the nodes answer without TLS; name nodes and a port that have it with --kv.nodes, or turn it on (client_encryption_options in cassandra.yaml)"
                .to_owned(),
        ),
        _ => None,
    }
}
