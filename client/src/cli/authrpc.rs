//! Options of the server with the Engine API, for a consensus layer.

use super::{args::DataArgs, exit::Failure, output, serving::address};
use crate::{
    devnet::{
        Node,
        engine::{Engine, PAYLOAD_BYTES},
    },
    layers::values::parse_some_bytes,
    rpc::{self, Audience, JwtError, JwtSecret, RunningServer, ServerOptions},
};
use clap::Args;
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Name of the file in the data directory that holds the secret.
pub(super) const SECRET_FILE: &str = "jwt.hex";

/// Bytes that a request of a consensus layer may have: a payload in hexadecimal, with room to spare.
const MAX_REQUEST: u32 = 128 << 20;

/// The server with the Engine API.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine API over HTTP and WebSocket")]
pub(super) struct AuthArgs {
    /// Address to listen on.
    #[arg(long = "authrpc.addr", value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    auth_addr: IpAddr,
    /// Port to listen on; 0 takes any that is free.
    #[arg(long = "authrpc.port", value_name = "PORT", default_value_t = 8551)]
    auth_port: u16,
    /// File of the secret of both sides, 32 bytes in hexadecimal; made if it is not there [default: jwt.hex in
    /// the data directory]
    #[arg(long = "authrpc.jwtsecret", value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Most bytes of payloads that are kept beside the chain: of other branches, and those whose parents are missing
    /// (k, M, G may follow); the oldest ones make room [default: 256M]
    #[arg(long = "engine.payloads", value_name = "BYTES", value_parser = parse_some_bytes, default_value_t = PAYLOAD_BYTES,
        hide_default_value = true)]
    payloads: usize,
}

impl AuthArgs {
    /// The file of --authrpc.jwtsecret, if one was named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.secret.as_deref()
    }

    /// Starts the server for a consensus layer. The limits are those of the public server, but a request may
    /// have more bytes.
    pub(super) fn serve(
        &self,
        node: &Arc<Node>,
        secret: &Secret,
        http: &ServerOptions,
    ) -> Result<RunningServer, Failure> {
        let engine = Arc::new(Engine::new(Arc::clone(node), self.payloads));
        let options = ServerOptions {
            audience: Audience::ConsensusLayer { engine, secret: secret.value },
            address: SocketAddr::new(self.auth_addr, self.auth_port),
            // A caller that has the secret may use any host name. No web page has the secret, so no
            // origin is allowed.
            cors: Vec::new(),
            hosts: vec!["*".to_owned()],
            max_request: MAX_REQUEST.max(http.max_request),
            ..http.clone()
        };
        Ok(rpc::serve(Arc::clone(node), options)?)
    }

    /// Reads the secret from its file. Makes the file if there is none.
    pub(super) fn secret(&self, data: &DataArgs) -> Result<Secret, Failure> {
        let default = || data.datadir.as_ref().map(|dir| dir.join(SECRET_FILE));
        let path = self.secret.clone().or_else(default).ok_or_else(|| {
            Failure::Usage(
                "there is no --datadir to keep the secret in; name a file with --authrpc.jwtsecret"
                    .into(),
            )
        })?;
        Ok(Secret { value: JwtSecret::read_or_make(&path)?, path })
    }
}

/// The secret and the path of its file.
#[derive(Debug)]
pub(super) struct Secret {
    value: JwtSecret,
    path: PathBuf,
}

impl Secret {
    /// Prints the path of the secret's file and the address of the server.
    pub(super) fn tell(&self, server: &RunningServer) -> Result<(), Failure> {
        output::line(&format!("secret in {}", self.path.display()))?;
        output::line(&format!("engine listening on http://{0} and ws://{0}", server.address()))
    }
}

super::exit::fails_as!(JwtError [] {
    E::Content { .. } => Invalid,
    E::Io { .. } => Machine,
});
