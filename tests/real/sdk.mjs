// The checks of sdk.sh with the Node SDK; sdk.py starts it, and has the same checks for Python.
//
// usage: node sdk.mjs NODE_FOLDER TASK   (TASK: JSON, made by sdk.py)

import { createRequire } from "node:module";
import path from "node:path";

const [folder, json] = process.argv.slice(2);
const OpenAI = createRequire(path.resolve(folder, "x.js"))("openai");
const task = JSON.parse(json);
const { text, messages } = task;

class Failed extends Error {
  name = "Failed";
}

function must(holds, seen) {
  if (!holds) throw new Failed(seen);
}

function mustBeTheText(got) {
  let same = 0;
  while (same < text.length && got[same] === text[same]) same += 1;
  const [have, want] = [got, text].map((whole) => JSON.stringify(whole.slice(same, same + 40)));
  must(got === text, `departs at character ${same} of ${text.length}: ${have}, not ${want}`);
}

const connect = (apiKey, timeout = 10_000) => new OpenAI({ baseURL: task.base, apiKey, maxRetries: 0, timeout });
const client = connect(task.key);
const served = (response) => response.headers.get("x-baton-served-by");

/** What one streamed answer gave, and how it ended. */
async function streamed(route, options = {}) {
  const got = { text: "", ids: new Set(), roles: 0, finishes: [], usages: [], servedBy: null, error: null };
  try {
    const request = client.chat.completions.create({ model: route, messages, stream: true, ...options });
    const { data: stream, response } = await request.withResponse();
    got.servedBy = served(response);
    for await (const chunk of stream) {
      got.ids.add(chunk.id);
      if (chunk.usage) {
        must(chunk.choices.length === 0, "the usage chunk has choices");
        got.usages.push(chunk.usage);
      } else {
        must(got.usages.length === 0, "a chunk follows the usage");
      }
      for (const { delta, finish_reason } of chunk.choices) {
        got.text += delta.content ?? "";
        got.roles += delta.role !== undefined;
        if (finish_reason !== null) got.finishes.push(finish_reason);
      }
    }
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    got.error = error;
  }
  return got;
}

/** An answer that must be as if nothing had happened, begun by the target `first`. */
async function whole(route, first, options) {
  const got = await streamed(route, options);
  must(got.error === null, `the SDK raised ${got.error} after ${got.text.length} characters`);
  mustBeTheText(got.text);
  must(got.servedBy === first, `served by ${got.servedBy}, not ${first}`);
  must(got.ids.size === 1, `ids: ${[...got.ids]}`);
  must(got.roles === 1, `${got.roles} role deltas`);
  must(got.finishes.length === 1 && got.finishes[0] === "stop", `finish_reasons: ${got.finishes}`);
  return got;
}

async function recovered(route, first) {
  const got = await whole(route, first);
  return `${got.text.length} characters exact, one id, one role, one finish_reason`;
}

async function helper() {
  const completion = await client.chat.completions.stream({ model: "foreign", messages }).finalChatCompletion();
  const { content, role } = completion.choices[0].message;
  mustBeTheText(content);
  must(role === "assistant", `role ${role}`);
  return `${content.length} characters exact`;
}

async function terminated(route, code) {
  const { text: kept, error, finishes } = await streamed(route);
  const want = text.match(/\S+ ?/g).slice(0, task.cut_words).join("");
  // For the error frame: a cut alone would be a TypeError of fetch.
  must(error?.constructor === OpenAI.APIError, `the SDK raised ${error?.constructor.name} (${error}), not APIError`);
  must(error.type === "upstream_error", `type ${error.type}`);
  must(error.code === code, `code ${error.code}, not ${code}`);
  must(kept === want, `${JSON.stringify(kept)} is kept, not ${JSON.stringify(want)}`);
  must(finishes.length === 0, `finish_reasons: ${finishes}`);
  return `${kept.length} characters kept, raised APIError ${code}: ${error.error.message}`;
}

async function earlyError() {
  const got = await whole("early-error", "two/healthy");
  return `${got.text.length} characters exact, served by ${got.servedBy}`;
}

async function usage(route, first) {
  const { usages } = await whole(route, first, { stream_options: { include_usage: true } });
  must(usages.length === 1, `${usages.length} usage chunks: ${JSON.stringify(usages)}`);
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usages[0];
  must(total === prompt + completion, `${JSON.stringify(usages[0])} does not add up`);
  return { prompt, completion };
}

/** The scripted upstreams count a token a word, and one for each four bytes of the messages. */
async function usageAsked() {
  const plain = await usage("whole", "one/healthy");
  const sums = await usage("cut", task.recovered.cut);
  const words = text.split(" ").length;
  must(plain.completion === words, `${plain.completion} tokens without a fault, not ${words} words`);
  must(sums.completion === words, `${sums.completion} tokens after a recovery, not ${words} words`);
  // Two prompts, the second with the partial in it.
  const [low, high] = [2 * plain.prompt, 2 * plain.prompt + text.length];
  must(low < sums.prompt && sums.prompt < high, `${sums.prompt} after a recovery, not ${low} to ${high} of the prompt`);
  const told = ({ prompt, completion }) => `${prompt} + ${completion}`;
  return `one chunk, ${told(plain)} tokens; one after a recovery, ${told(sums)}`;
}

async function usageNotAsked() {
  for (const [route, first] of [["whole", "one/healthy"], ["cut", task.recovered.cut]]) {
    const { usages } = await whole(route, first);
    must(usages.length === 0, `${route}: ${JSON.stringify(usages)}`);
  }
  return "none, nor after a recovery";
}

/** What the own upstream was asked for since the last call; waits until its peers are gone. */
async function seen() {
  return (await fetch(task.control)).json();
}

/** The upstream was asked for `model` alone, and its peer leaves within a second from now. */
async function gone(model) {
  const started = performance.now();
  const { asked, peers } = await seen();
  const took = performance.now() - started;
  must(peers === 0 && took < 1000 * task.gone_seconds_max, `open for ${Math.round(took)} ms, ${peers} peers`);
  must(asked.length === 1 && asked[0] === model, `the upstream was asked for ${asked}`);
  return `the upstream's connection closed within ${Math.round(took)} ms`;
}

async function abort() {
  await seen();
  const controller = new AbortController();
  const { signal } = controller;
  const stream = await client.chat.completions.create({ model: "endless", messages, stream: true }, { signal });
  let chunks = 0;
  for await (const _ of stream) {
    chunks += 1;
    if (chunks === 3) controller.abort();
  }
  return gone("endless");
}

async function timeOut() {
  await seen();
  try {
    await connect(task.key, 500).chat.completions.create({ model: "silent", messages, stream: true });
    throw new Failed("the SDK did not time out");
  } catch (error) {
    if (!(error instanceof OpenAI.APIConnectionTimeoutError)) throw error;
  }
  return gone("silent");
}

async function plain() {
  const { data, response } = await client.chat.completions.create({ model: "unavailable", messages }).withResponse();
  const { message, finish_reason } = data.choices[0];
  mustBeTheText(message.content);
  must(finish_reason === "stop", `finish_reason ${finish_reason}`);
  must(served(response) === "two/healthy", `served by ${served(response)}`);
  return `${message.content.length} characters exact, served by ${served(response)}`;
}

/** Streamed or not, the SDK raises the same. */
async function status(kind, route, code, { key = task.key, says = "" } = {}) {
  let message;
  for (const stream of [false, true]) {
    try {
      await connect(key).chat.completions.create({ model: route, messages, stream });
      throw new Failed(`the SDK raised nothing (stream: ${stream})`);
    } catch (error) {
      if (error instanceof Failed) throw error;
      must(error.constructor === kind, `the SDK raised ${error} (stream: ${stream}), not ${kind.name}`);
      must(error.code === code, `code ${error.code}, not ${code}`);
      message = error.error.message;
      must(message.includes(says), `message ${message}`);
      must(error.requestID, "no requestID");
    }
  }
  return `${kind.name}, ${code}: ${message}`;
}

const checks = [
  ...Object.entries(task.recovered).map(([route, first]) => [`recovered, ${route}`, () => recovered(route, first)]),
  ["recovered, the SDK's stream helper", helper],
  ...Object.entries(task.given_up).map(([route, code]) => [`terminated, ${route}`, () => terminated(route, code)]),
  ["error before content", earlyError],
  ["usage asked", usageAsked],
  ["usage not asked", usageNotAsked],
  ["abort between tokens", abort],
  ["time-out before a token", timeOut],
  ["plain answer, fallback from 503", plain],
  [
    "400 of the provider",
    () => status(OpenAI.BadRequestError, "refused", "scripted", { says: "The scripted upstream was asked to fail." }),
  ],
  ["401, wrong client key", () => status(OpenAI.AuthenticationError, "whole", "invalid_api_key", { key: "another" })],
  ["404, unknown model", () => status(OpenAI.NotFoundError, "nowhere", "model_not_found")],
  ["429 at the end", () => status(OpenAI.RateLimitError, "limited", "scripted")],
];

let failed = 0;
for (const [name, check] of checks) {
  try {
    console.log(`ok    node    ${name}: ${await check()}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  node    ${name}: ${error}`);
  }
}
console.log(`node: ${checks.length - failed} of ${checks.length}`);
// Connections that are kept alive would hold the process for some seconds.
process.exitCode = failed > 0 ? 1 : 0;
