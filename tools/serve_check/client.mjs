// Replicate's client from npm, unmodified, against a server. Variables: BASE, TOKEN, CLIP, LONG, BAD, HOOK, PACKAGES.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const Replicate = createRequire(process.env.PACKAGES + "/")("replicate");
const { validateWebhook } = Replicate;
const { BASE, TOKEN, CLIP, LONG, BAD } = process.env;
const client = new Replicate({ baseUrl: `${BASE}/v1`, auth: TOKEN });
const bytes = fs.readFileSync(CLIP);
const long = new Blob([fs.readFileSync(LONG)]);
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
let failures = 0;

async function check(text, run) {
  try {
    await run();
    console.log(`ok      npm: ${text}`);
  } catch (error) {
    failures += 1;
    console.log(`failed  npm: ${text}: ${String(error.message).replace(/\s+/g, " ").slice(0, 400)}`);
  }
}

async function film(output) {
  assert.equal(typeof output, "string");
  const answer = await fetch(output, { headers: { Authorization: `Bearer ${TOKEN}` } });
  assert.equal(answer.status, 200);
  const content = Buffer.from(await answer.arrayBuffer());
  assert.equal(content.readUInt32BE(0), 0x1a45dfa3);
  return sha256(content);
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const given = { resolution: "2x" };
let first;

await check("account", async () => assert.ok((await client.accounts.current()).username));

await check("upload of a File with metadata; get, list, delete", async () => {
  const name = 'clip é "3".mkv';
  const one = await client.files.create(new File([bytes], name, { type: "video/x-matroska" }), { reel: 3 });
  assert.equal(one.size, bytes.length);
  assert.equal(one.checksums.sha256, sha256(bytes));
  assert.deepEqual(one.metadata, { reel: 3 });
  assert.ok(!one.name.includes("/"));
  assert.equal((await client.files.get(one.id)).id, one.id);
  assert.ok((await client.files.list()).results.some((other) => other.id === one.id));
  assert.equal(await client.files.delete(one.id), true);
  await assert.rejects(client.files.get(one.id), (error) => error.response.status === 404);
});

await check("upload of a Buffer, create by version, wait, film", async () => {
  const one = await client.files.create(bytes);
  const created = await client.predictions.create({ version: "anime", input: { ...given, media: one.urls.get } });
  assert.ok(["starting", "processing"].includes(created.status));
  const done = await client.wait(created, {});
  assert.equal(done.status, "succeeded");
  first = await film(done.output);
});

await check("create by model with a Blob", async () => {
  const created = await client.predictions.create({ model: "remaster/anime", input: { ...given, media: new Blob([bytes]) } });
  assert.equal(await film((await client.wait(created, {})).output), first);
});

await check("create that waits for the end", async () => {
  const done = await client.predictions.create({ version: "anime", input: { ...given, media: bytes }, wait: 60 });
  assert.equal(done.status, "succeeded");
});

await check("run()", async () => {
  assert.equal(await film(await client.run("remaster/anime", { input: { ...given, media: bytes } })), first);
});

await check("run() that waits a second, then polls, with progress", async () => {
  const states = [];
  const options = { input: { ...given, media: long, end: "3" }, wait: { mode: "block", timeout: 1 } };
  await film(await client.run("remaster/anime", options, (prediction) => states.push(prediction.status)));
  assert.equal(states.at(-1), "succeeded");
  assert.equal(states[0], "starting");
});

await check("run() that polls only", async () => {
  const options = { input: { ...given, media: bytes }, wait: { mode: "poll", interval: 100 } };
  assert.equal(await film(await client.run("remaster/anime", options)), first);
});

await check("run() with a version behind the model", async () => {
  assert.equal(await film(await client.run("remaster/anime:anime", { input: { ...given, media: bytes } })), first);
});

await check("a data: URL as input", async () => {
  const media = `data:video/x-matroska;base64,${bytes.toString("base64")}`;
  assert.equal(await film(await client.run("remaster/anime", { input: { ...given, media } })), first);
});

await check("list and pages: each prediction once", async () => {
  const identities = [];
  for await (const page of client.paginate(client.predictions.list)) identities.push(...page.map((one) => one.id));
  assert.ok(identities.length >= 7);
  assert.equal(new Set(identities).size, identities.length);
  assert.equal((await client.predictions.get(identities[0])).id, identities[0]);
});

await check("cancel while it runs", async () => {
  let one = await client.predictions.create({ version: "anime", input: { ...given, media: long } });
  for (let turn = 0; turn < 300 && one.status === "starting"; turn += 1) {
    await sleep(100);
    one = await client.predictions.get(one.id);
  }
  assert.equal(one.status, "processing");
  await client.predictions.cancel(one.id);
  one = await client.wait(await client.predictions.get(one.id), {});
  assert.equal(one.status, "canceled");
  assert.equal((await client.predictions.cancel(one.id)).status, "canceled");
});

await check("run() that is aborted cancels its prediction", async () => {
  const abort = new AbortController();
  let identity;
  const options = { input: { ...given, media: long }, signal: abort.signal, wait: { mode: "poll" } };
  await client.run("remaster/anime", options, (prediction) => {
    identity = prediction.id;
    setTimeout(() => abort.abort(), 700);
  });
  assert.equal((await client.wait({ id: identity, status: "starting" }, {})).status, "canceled");
});

await check("stream(), or the client's own word that there is none", async () => {
  const events = [];
  try {
    for await (const event of client.stream("remaster/anime", { input: { ...given, media: bytes } })) events.push(event.event);
    assert.equal(events.at(-1), "done");
  } catch (error) {
    if (!/does not support streaming/.test(error.message) && process.env.TOKEN_REQUIRED !== "1") throw error;
  }
});

await check("models", async () => {
  assert.ok((await client.models.list()).results.some((model) => model.name === "anime"));
  assert.equal((await client.models.get("remaster", "anime")).name, "anime");
});

await check("a film that is none", async () => {
  const input = { ...given, media: new Blob([fs.readFileSync(BAD)]) };
  await assert.rejects(client.run("remaster/anime", { input }), /Prediction failed: .{10}|status 422/);
});

await check("errors of requests are problems with a sentence", async () => {
  for (const body of [{ version: "nonexistent", input: { media: bytes } }, { version: "anime", input: {} }]) {
    await assert.rejects(client.predictions.create(body), (error) => {
      assert.ok(error.response.status >= 400 && error.response.status < 500, error.message);
      assert.match(error.message, /"detail":\s*".{10}/);
      return true;
    });
  }
});

await check("webhooks: start and completed, signed", async () => {
  const received = [];
  const server = http.createServer((request, answer) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
      answer.end();
    });
  });
  await new Promise((resolve) => server.listen(Number(process.env.HOOK), "127.0.0.1", resolve));
  const webhook = `http://127.0.0.1:${server.address().port}/${path.basename(CLIP)}`;
  await client.run("remaster/anime", { input: { ...given, media: bytes }, webhook, webhook_events_filter: ["start", "completed"] });
  const { key } = await client.webhooks.default.secret.get();
  for (let turn = 0; turn < 600 && received.length < 2; turn += 1) await sleep(100);
  server.close();
  assert.equal(received.length, 2);
  for (const one of received) {
    assert.equal(await validateWebhook(one, key), true);
    assert.equal(await validateWebhook({ ...one, body: one.body.replace("anime", "other") }, key), false);
  }
  assert.equal(JSON.parse(received.at(-1).body).status, "succeeded");
});

await check("another token than the server's is refused, if it has one", async () => {
  if (process.env.TOKEN_REQUIRED !== "1") return;
  const other = new Replicate({ baseUrl: `${BASE}/v1`, auth: "wrong" });
  await assert.rejects(other.predictions.list(), (error) => error.response.status === 401);
});

process.exit(failures ? 1 : 0);
