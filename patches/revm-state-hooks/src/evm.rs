//! revm's mainnet EVM over a database with hooks.

use alloy_evm::{Database, Evm, EvmEnv, eth::EthEvmContext};
use core::fmt;
use revm::{
    Context, Inspector, MainBuilder, MainContext,
    context::{BlockEnv, CfgEnv, ContextSetters, Evm as RevmEvm, FrameStack, TxEnv},
    context_interface::result::{EVMError, HaltReason, ResultAndState},
    handler::{
        EthFrame, EthPrecompiles, EvmTr, FrameInitOrResult, Handler, ItemOrResult, MainnetHandler,
        PrecompileProvider, SystemCallTx,
        evm::{ContextDbError, FrameInitResult},
    },
    inspector::{InspectorEvmTr, InspectorHandler, NoOpInspector},
    interpreter::{FrameInput, InterpreterResult, interpreter_action::FrameInit},
    primitives::{Address, Bytes, hardfork::SpecId},
};

use crate::{
    StateHook, collision, eip1283,
    instructions::{Instructions, install},
};

/// Gas of a system call (EIP-4788, EIP-2935, EIP-7002, EIP-7251). revm adds the extra gas of Amsterdam (EIP-8037) in
/// every revision.
const SYSTEM_CALL_GAS: u64 = 30_000_000;

type Inner<DB, I, P> = RevmEvm<EthEvmContext<DB>, I, Instructions<DB>, P, EthFrame>;

/// revm's mainnet EVM, with the additions of this crate.
///
/// An EVM is built for a block and runs all its transactions.
pub struct HookedEvm<DB: Database, I = NoOpInspector, P = EthPrecompiles> {
    inner: Inner<DB, I, P>,
    inspect: bool,
    /// System contracts that stand elsewhere on this chain: the address that is called, and the address of the
    /// contract.
    moved: Vec<(Address, Address)>,
}

impl<DB: StateHook> HookedEvm<DB> {
    /// Returns an EVM for the block that `env` describes, without an inspector.
    pub fn new(db: DB, env: EvmEnv) -> Self {
        Self::with_inspector(db, env, NoOpInspector {}).inspecting(false)
    }
}

impl<DB: StateHook, I> HookedEvm<DB, I> {
    /// Returns an EVM for the block that `env` describes, whose inspector sees every step.
    pub fn with_inspector(db: DB, env: EvmEnv, inspector: I) -> Self {
        let hooks = db.hooks_enabled();
        let mut inner = Context::mainnet()
            .with_block(env.block_env)
            .with_cfg(env.cfg_env)
            .with_db(db)
            .build_mainnet_with_inspector(inspector);
        install(&mut inner.instruction, hooks, false);
        Self { inner, inspect: true, moved: Vec::new() }
    }

    const fn inspecting(mut self, inspect: bool) -> Self {
        self.inspect = inspect;
        self
    }
}

impl<DB: StateHook, I, P> HookedEvm<DB, I, P> {
    /// Charges SSTORE as in EIP-1283, for blocks where Constantinople is active and Petersburg is not.
    #[must_use]
    pub fn with_eip1283(mut self) -> Self {
        let hooks = self.inner.ctx.journaled_state.database.hooks_enabled();
        eip1283::set_prices(&mut self.inner.ctx.cfg.gas_params);
        install(&mut self.inner.instruction, hooks, true);
        self
    }
}

impl<DB: Database, I, P> HookedEvm<DB, I, P> {
    /// Sets the gas that an instruction costs before it runs, for a draft of a fork that differs from revm's.
    #[must_use]
    pub fn with_static_gas(mut self, opcode: u8, gas: u16) -> Self {
        self.inner.instruction.insert_gas(opcode, gas);
        self
    }

    /// Directs system calls for `from` to `to`, on a chain whose system contract stands there.
    #[must_use]
    pub fn with_moved_contract(mut self, from: Address, to: Address) -> Self {
        self.moved.push((from, to));
        self
    }

    /// Returns this EVM with other precompiles, for calls that move or replace some.
    #[must_use]
    pub fn with_precompiles<Q>(self, precompiles: Q) -> HookedEvm<DB, I, Q> {
        let Self { inner, inspect, moved } = self;
        HookedEvm { inner: inner.with_precompiles(precompiles), inspect, moved }
    }

    /// Returns the inspector, with the records that it has collected.
    pub fn into_inspector(self) -> I {
        self.inner.inspector
    }

    /// Returns the context: block, configuration, journal, database.
    pub const fn context(&self) -> &EthEvmContext<DB> {
        &self.inner.ctx
    }

    /// Returns the context for changes between transactions.
    pub const fn context_mut(&mut self) -> &mut EthEvmContext<DB> {
        &mut self.inner.ctx
    }
}

impl<DB: Database, I, P> fmt::Debug for HookedEvm<DB, I, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookedEvm")
            .field("block", &self.inner.ctx.block)
            .field("cfg", &self.inner.ctx.cfg)
            .field("inspect", &self.inspect)
            .finish_non_exhaustive()
    }
}

impl<DB, I, P> EvmTr for HookedEvm<DB, I, P>
where
    DB: StateHook,
    P: PrecompileProvider<EthEvmContext<DB>, Output = InterpreterResult>,
{
    type Context = EthEvmContext<DB>;
    type Instructions = Instructions<DB>;
    type Precompiles = P;
    type Frame = EthFrame;

    #[inline]
    fn all(&self) -> (&Self::Context, &Self::Instructions, &P, &FrameStack<EthFrame>) {
        self.inner.all()
    }

    #[inline]
    fn all_mut(
        &mut self,
    ) -> (&mut Self::Context, &mut Self::Instructions, &mut P, &mut FrameStack<EthFrame>) {
        self.inner.all_mut()
    }

    #[inline]
    fn frame_init(
        &mut self,
        input: FrameInit,
    ) -> Result<FrameInitResult<'_, EthFrame>, ContextDbError<Self::Context>> {
        if let FrameInput::Create(inputs) = &input.frame_input
            && let Some(result) = collision::collide(&mut self.inner.ctx, input.depth, inputs)?
        {
            return Ok(ItemOrResult::Result(result));
        }
        self.inner.frame_init(input)
    }

    #[inline]
    fn frame_run(&mut self) -> Result<FrameInitOrResult<EthFrame>, ContextDbError<Self::Context>> {
        self.inner.frame_run()
    }

    #[inline]
    fn frame_return_result(
        &mut self,
        result: revm::handler::FrameResult,
    ) -> Result<Option<revm::handler::FrameResult>, ContextDbError<Self::Context>> {
        self.inner.frame_return_result(result)
    }
}

impl<DB, I, P> InspectorEvmTr for HookedEvm<DB, I, P>
where
    DB: StateHook,
    I: Inspector<EthEvmContext<DB>>,
    P: PrecompileProvider<EthEvmContext<DB>, Output = InterpreterResult>,
{
    type Inspector = I;

    fn all_inspector(
        &self,
    ) -> (&Self::Context, &Self::Instructions, &P, &FrameStack<EthFrame>, &I) {
        self.inner.all_inspector()
    }

    fn all_mut_inspector(
        &mut self,
    ) -> (&mut Self::Context, &mut Self::Instructions, &mut P, &mut FrameStack<EthFrame>, &mut I)
    {
        self.inner.all_mut_inspector()
    }
}

impl<DB, I, P> Evm for HookedEvm<DB, I, P>
where
    DB: StateHook,
    I: Inspector<EthEvmContext<DB>>,
    P: PrecompileProvider<EthEvmContext<DB>, Output = InterpreterResult>,
{
    type DB = DB;
    type Tx = TxEnv;
    type Error = EVMError<DB::Error>;
    type HaltReason = HaltReason;
    type Spec = SpecId;
    type BlockEnv = BlockEnv;
    type Precompiles = P;
    type Inspector = I;

    fn block(&self) -> &BlockEnv {
        &self.inner.ctx.block
    }

    fn cfg_env(&self) -> &CfgEnv {
        &self.inner.ctx.cfg
    }

    fn chain_id(&self) -> u64 {
        self.inner.ctx.cfg.chain_id
    }

    fn transact_raw(&mut self, tx: TxEnv) -> Result<ResultAndState, Self::Error> {
        self.inner.ctx.set_tx(tx);
        let result: Result<_, Self::Error> = if self.inspect {
            MainnetHandler::default().inspect_run(self)
        } else {
            MainnetHandler::default().run(self)
        };
        // The journal is emptied after an error, too, so that the next transaction starts clean.
        let state = self.inner.ctx.journaled_state.finalize();
        Ok(ResultAndState::new(result?, state))
    }

    fn transact_system_call(
        &mut self,
        caller: Address,
        contract: Address,
        data: Bytes,
    ) -> Result<ResultAndState, Self::Error> {
        let moved = self.moved.iter().find(|(from, _)| *from == contract);
        let contract = moved.map_or(contract, |(_, to)| *to);
        let mut tx = TxEnv::new_system_tx_with_caller(caller, contract, data);
        if !self.inner.ctx.cfg.spec.is_enabled_in(SpecId::AMSTERDAM) {
            tx.gas_limit = SYSTEM_CALL_GAS;
        }
        self.inner.ctx.set_tx(tx);
        let result: Result<_, Self::Error> = MainnetHandler::default().run_system_call(self);
        let state = self.inner.ctx.journaled_state.finalize();
        Ok(ResultAndState::new(result?, state))
    }

    fn finish(self) -> (DB, EvmEnv) {
        let Context { block, cfg, journaled_state, .. } = self.inner.ctx;
        (journaled_state.database, EvmEnv::new(cfg, block))
    }

    fn set_inspector_enabled(&mut self, enabled: bool) {
        self.inspect = enabled;
    }

    fn components(&self) -> (&DB, &I, &P) {
        (&self.inner.ctx.journaled_state.database, &self.inner.inspector, &self.inner.precompiles)
    }

    fn components_mut(&mut self) -> (&mut DB, &mut I, &mut P) {
        (
            &mut self.inner.ctx.journaled_state.database,
            &mut self.inner.inspector,
            &mut self.inner.precompiles,
        )
    }
}
