// The page of a devnet in a real browser; see ../test-page.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [binary, layer, shots] = process.argv.slice(2);
let node, url;

async function start(port, ...more) {
  node = spawn(binary, ["devnet", "--state", layer, "--http.port", String(port), ...more], { stdio: ["ignore", "pipe", "ignore"] });
  for await (const line of createInterface(node.stdout)) {
    const found = /^listening on (http:\S+)/.exec(line);
    if (found) return found[1];
  }
  throw new Error("the node says nothing");
}
async function stop() {
  node.kill();
  await new Promise(resolve => (node.exitCode === null && node.signalCode === null ? node.once("exit", resolve) : resolve()));
}
async function call(method, ...params) {
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
  const answer = await response.json();
  assert.equal(answer.error, undefined, method);
  return answer.result;
}

let browser, data;
try {
  url = await start(0);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  const [alice, bob] = await call("eth_accounts");
  const send = value => call("eth_sendTransaction", { from: alice, to: bob, value });
  for (const [name, colorScheme, width] of [["light", "light", 1280], ["dark", "dark", 1280], ["narrow", "dark", 360]]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
    const page = await context.newPage();
    const troubles = [];
    page.on("pageerror", error => troubles.push(error.message));
    page.on("console", message => message.type() === "error" && troubles.push(message.text()));
    // Nothing comes from anywhere else.
    page.on("request", request => assert.ok(request.url().startsWith(url) || request.url().startsWith("data:"), request.url()));
    await page.goto(url);
    const text = selector => page.textContent(selector);
    const until = (what, argument) => page.waitForFunction(what, argument, { timeout: 15_000 });
    await until(() => document.querySelector("#state").textContent === "");
    assert.equal(await text("#layer"), layer);
    assert.equal(await text("#chain"), "1337");

    const before = Number(await call("eth_blockNumber"));
    let hash;
    for (let n = 0; n < 20; n++) hash = await send("0xde0b6b3a7640000");
    await until(head => document.querySelector("#head").textContent === head, String(before + 20));
    assert.equal(await page.locator("#blocks tr").count(), 15);
    assert.equal(await page.locator("#blocks tr").first().locator("td").nth(2).textContent(), "1");
    await until(() => Number(document.querySelector("#tps").textContent) > 0);
    await until(() => document.querySelectorAll("#bar i").length === 5);
    const ether = (Number(BigInt(await call("eth_getBalance", bob, "latest")) / 10n ** 12n) / 1e6).toLocaleString("en", { maximumFractionDigits: 6 });
    await until(ether => document.querySelectorAll("#accounts tr")[1]?.cells[1].textContent === ether, ether);

    for (const [wanted, found] of [[hash, '"receipt"'], [String(before + 1), '"transactions"'], [alice, '"nonce"'], ["nonsense", "Enter"], ["0x" + "1".repeat(64), "no block"]]) {
      await page.fill("#query", wanted);
      await page.click("button");
      await until(found => document.querySelector("#found").textContent.includes(found), found);
    }
    await page.click("#blocks tr td:nth-child(2) a", { position: { x: 5, y: 5 } });
    await until(() => document.querySelector("#found").textContent.includes('"parentHash"'));
    await page.evaluate(() => scrollTo(0, 0));
    const [wide, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= there, `${name}: the page is ${wide} wide on a screen of ${there}`);
    await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });

    // Blocks that are taken back disappear.
    const point = await call("evm_snapshot"), head = Number(await call("eth_blockNumber"));
    await send("0x1");
    await until(head => document.querySelector("#head").textContent === head, String(head + 1));
    await call("evm_revert", point);
    await send("0x2");
    const again = (await call("eth_getBlockByNumber", "latest", false)).hash;
    await until(hash => document.querySelector("#blocks td:nth-child(2)").textContent === hash, again);
    const numbers = await page.locator("#blocks tr td:first-child").allTextContents();
    assert.equal(new Set(numbers).size, numbers.length, "each block once");

    if (name === "narrow") {
      const { port } = new URL(url);
      node.kill();
      await until(() => document.querySelector("#state").textContent.includes("does not answer"));
      await new Promise(resolve => (node.exitCode === null ? node.once("exit", resolve) : resolve()));
      url = await start(port);
      await until(() => document.querySelector("#state").textContent === "" && document.querySelector("#head").textContent === "0");
      // What the browser says about the lost connection is no fault of the page.
      troubles.splice(0, troubles.length, ...troubles.filter(trouble => !/WebSocket|connection was lost|Failed to load/.test(trouble)));
    }
    assert.ok(!(await text("body")).includes("NaN"), `${name}: NaN`);
    assert.deepEqual(troubles, [], name);
    await context.close();
    console.log(`${layer}: ${name} passes`);
  }
  // Where no socket comes through, and after a restart on what is on the disk: all that is there is shown.
  await stop();
  data = mkdtempSync(join(tmpdir(), "page-"));
  url = await start(0, "--datadir", data);
  const [carol] = await call("eth_accounts");
  const pay = () => call("eth_sendTransaction", { from: carol, to: carol, value: "0x1" });
  for (let n = 0; n < 3; n++) await pay();
  await stop();
  url = await start(0, "--datadir", data);
  for (const socket of [true, false]) {
    const context = await browser.newContext();
    const page = await context.newPage();
    if (!socket) await page.addInitScript(() => {
      window.WebSocket = class extends EventTarget {
        static OPEN = 1;
        readyState = 3;
        constructor() { super(); setTimeout(() => this.onclose(), 10); }
      };
    });
    await page.goto(url);
    const until = (what, argument) => page.waitForFunction(what, argument, { timeout: 15_000 });
    const head = Number(await call("eth_blockNumber"));
    await until(head => document.querySelector("#head").textContent === head, String(head));
    assert.equal(await page.locator("#blocks tr").count(), head + 1);
    await pay();
    await until(head => document.querySelector("#head").textContent === head, String(head + 1));
    await until(() => document.querySelectorAll("#accounts tr").length === 10);
    assert.ok(!(await page.textContent("body")).includes("NaN"));
    await context.close();
    console.log(`${layer}: ${socket ? "a restart" : "plain HTTP"} passes`);
  }
  console.log(`screenshots are in ${shots}`);
} finally {
  await browser?.close();
  await stop();
  if (data) rmSync(data, { recursive: true });
}
