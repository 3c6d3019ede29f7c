// Writes chainspec/data/<chain>.bin.gz: the genesis accounts of the public networks, as facts taken from the npm package
// @ethereumjs/genesis, in the packed form that chainspec/README.md describes.
//
//   npm install --no-package-lock && npm run derive
//
// What comes out depends only on the versions in package.json (and on zlib, for the compressed bytes). The tests of
// polytrie-chainspec recompute every state root and genesis hash from it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Chain } from '@ethereumjs/common';
import { getGenesis } from '@ethereumjs/genesis';

const CHAINS = { mainnet: Chain.Mainnet, sepolia: Chain.Sepolia, holesky: Chain.Holesky, hoodi: Chain.Hoodi };
const MAGIC = Buffer.from('PTGA\x01', 'latin1');
const EXTENDED = 0x40;

/** Bytes of a hexadecimal string with or without 0x; an odd digit counts as if a zero stood before it. */
function bytes(hex) {
  const digits = hex.replace(/^0x/i, '');
  if (!/^[0-9a-f]*$/i.test(digits)) throw new Error(`not hexadecimal: ${hex}`);
  return Buffer.from(digits.length % 2 ? `0${digits}` : digits, 'hex');
}

/** Seven bits a byte, the lowest first; the upper bit says that more follow. */
function varint(value) {
  const out = [];
  let rest = BigInt(value);
  for (; rest >= 0x80n; rest >>= 7n) out.push(Number(rest & 0x7fn) | 0x80);
  out.push(Number(rest));
  return Buffer.from(out);
}

/** Length and big-endian digits of a number without leading zeros. */
function trimmed(hex, flags = 0) {
  const digits = bytes(hex);
  const start = digits.findIndex((byte) => byte !== 0);
  const number = start < 0 ? Buffer.alloc(0) : digits.subarray(start);
  if (number.length > 32) throw new Error(`more than 256 bits: ${hex}`);
  return Buffer.concat([Buffer.from([number.length | flags]), number]);
}

/** One account: a balance, or [balance, code, storage, nonce] of which the later ones may be missing. */
function record(address, state) {
  const [balance, code = '0x', storage = [], nonce = '0x0'] = Array.isArray(state) ? state : [state];
  const slots = storage
    .filter(([, value]) => bytes(value).some((byte) => byte !== 0))
    .sort(([a], [b]) => (BigInt(a) < BigInt(b) ? -1 : 1));
  const extended = BigInt(nonce) !== 0n || bytes(code).length > 0 || slots.length > 0;
  const parts = [address, trimmed(balance, extended ? EXTENDED : 0)];
  if (extended) {
    parts.push(varint(nonce), varint(bytes(code).length), bytes(code), varint(slots.length));
    for (const [slot, value] of slots) parts.push(trimmed(slot), trimmed(value));
  }
  return Buffer.concat(parts);
}

const data = fileURLToPath(new URL('../../chainspec/data/', import.meta.url));
mkdirSync(data, { recursive: true });
for (const [chain, id] of Object.entries(CHAINS)) {
  const accounts = Object.entries(getGenesis(id)).map(([address, state]) => [bytes(address), state]);
  if (accounts.some(([address]) => address.length !== 20)) throw new Error(`${chain}: an address has not 20 bytes`);
  accounts.sort(([a], [b]) => Buffer.compare(a, b));
  if (accounts.some(([address], i) => i > 0 && address.equals(accounts[i - 1][0]))) {
    throw new Error(`${chain}: an address is listed twice`);
  }
  const packed = Buffer.concat([MAGIC, varint(accounts.length), ...accounts.map(([a, state]) => record(a, state))]);
  const file = gzipSync(packed, { level: 9 });
  writeFileSync(`${data}${chain}.bin.gz`, file);
  console.log(`${chain}: ${accounts.length} accounts, ${packed.length} bytes packed, ${file.length} compressed`);
}
