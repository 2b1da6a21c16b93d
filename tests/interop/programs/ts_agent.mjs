// An agent on the official TypeScript SDK, of version 1 or 2 (ACP_VERSION), without a model: it does
// itself what the markers of a prompt say (see wanted.py). ACP_SDK is the folder of the SDK.

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const second = process.env.ACP_VERSION === "2";
const entry = second ? "dist/v2/stable/acp.js" : "dist/v1/stable/acp.js";
const acp = await import(pathToFileURL(join(process.env.ACP_SDK, entry)).href);

const HELLO = "Hello from the scripted model.";
const CONTENT = "written by the model\n";
const STORE = join(process.env.HOME, "sessions");
const OPTIONS = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const cancelled = new Map();
let level = "low";
let calls = 0;
let turns = 0;

function options() {
  const values = ["low", "high"].map((value) => ({ value, name: value }));
  const option = { name: "Level", type: "select", currentValue: level, options: values };
  return [second ? { configId: "level", ...option } : { id: "level", ...option }];
}

function remember(id) {
  cancelled.set(id, false);
  if (!existsSync(STORE) || !readFileSync(STORE, "utf8").includes(id)) {
    appendFileSync(STORE, `${id}\n`);
  }
}

class Turn {
  constructor(client, sessionId) {
    this.client = client;
    this.sessionId = sessionId;
    this.messageId = `m-${++turns}`;
  }

  update(update) {
    return this.client.notify("session/update", { sessionId: this.sessionId, update });
  }

  say(text) {
    const content = { type: "text", text };
    const more = second ? { messageId: this.messageId } : {};
    return this.update({ sessionUpdate: "agent_message_chunk", content, ...more });
  }

  async write(path) {
    const toolCallId = `call-${process.pid}-${++calls}`;
    const toolCall = { toolCallId, title: "Write a file", kind: "edit", status: "pending" };
    await this.update({ sessionUpdate: second ? "tool_call_update" : "tool_call", ...toolCall });
    const asked = { sessionId: this.sessionId, options: OPTIONS };
    const subject = { type: "tool_call", toolCall };
    const answer = await this.client.request(
      "session/request_permission",
      second ? { ...asked, title: "Write a file", subject } : { ...asked, toolCall },
    );
    const allowed = answer.outcome.optionId === "yes";
    if (allowed && second) {
      writeFileSync(path, CONTENT);
    } else if (allowed) {
      const params = { sessionId: this.sessionId, path, content: CONTENT };
      await this.client.request("fs/write_text_file", params);
    }
    const status = allowed ? "completed" : "failed";
    await this.update({ sessionUpdate: "tool_call_update", toolCallId, status });
    await this.say(allowed ? "Done." : "Left alone.");
  }

  async read(path) {
    const params = { sessionId: this.sessionId, path };
    const text = second
      ? readFileSync(path, "utf8")
      : (await this.client.request("fs/read_text_file", params)).content;
    await this.say(text);
  }

  async run() {
    const made = await this.client.request("terminal/create", {
      sessionId: this.sessionId,
      command: "touch",
      args: ["made-by-command"],
    });
    const terminal = { sessionId: this.sessionId, terminalId: made.terminalId };
    await this.client.request("terminal/wait_for_exit", terminal);
    await this.client.request("terminal/release", terminal);
    await this.say("Done.");
  }

  async slowly() {
    for (let i = 0; i < 600 && !cancelled.get(this.sessionId); i++) {
      await this.say("tick ");
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async work(prompt) {
    cancelled.set(this.sessionId, false);
    const text = prompt.map((block) => block.text ?? "").join("\n");
    const [, action, path] = /interop:(\w+)(?: (\/\S+))?/.exec(text) ?? ["", "hello"];
    if (action === "write") await this.write(path);
    else if (action === "read") await this.read(path);
    else if (action === "run" && !second) await this.run();
    else if (action === "run") await this.say("Version 2 has no commands of the client's.");
    else if (action === "slow") await this.slowly();
    else if (action === "image")
      await this.say(
        prompt.some((block) => block.type === "image") ? "I see a picture." : "I see no picture.",
      );
    else await this.say(HELLO);
    return cancelled.get(this.sessionId) ? "cancelled" : "end_turn";
  }
}

async function accepted(turn, prompt) {
  const state = (more) => turn.update({ sessionUpdate: "state_update", ...more });
  await state({ state: "running" });
  try {
    await state({ state: "idle", stopReason: await turn.work(prompt) });
  } catch (error) {
    await state({
      state: "idle",
      stopReason: "error",
      error: { code: -32603, message: String(error) },
    });
  }
}

const info = { name: `ts-sdk-v${second ? 2 : 1}`, version: process.env.ACP_SDK_VERSION ?? "0" };
const app = acp.agent({ name: info.name });
if (second) {
  app
    .onRequest("session/list", ({ params }) => {
      const ids = existsSync(STORE) ? readFileSync(STORE, "utf8").trim().split("\n") : [];
      return { sessions: ids.map((sessionId) => ({ sessionId, cwd: params.cwd ?? process.cwd() })) };
    })
    .onRequest("session/close", () => ({}));
}
app
  .onRequest("initialize", () =>
    second
      ? {
          protocolVersion: 2,
          info,
          capabilities: { session: { prompt: { image: {} } } },
        }
      : {
          protocolVersion: 1,
          agentInfo: info,
          agentCapabilities: { loadSession: true, promptCapabilities: { image: true } },
        },
  )
  .onRequest("session/new", () => {
    const sessionId = `ts-${process.pid}-${Date.now()}`;
    remember(sessionId);
    return { sessionId, configOptions: options() };
  })
  .onRequest(second ? "session/resume" : "session/load", async ({ params, client }) => {
    if (!existsSync(STORE) || !readFileSync(STORE, "utf8").includes(params.sessionId)) {
      throw new acp.RequestError(-32002, "no such session");
    }
    remember(params.sessionId);
    if (second) {
      const update = { sessionUpdate: "state_update", state: "idle" };
      await client.notify("session/update", { sessionId: params.sessionId, update });
    }
    return { configOptions: options() };
  })
  .onRequest("session/set_config_option", ({ params }) => {
    level = params.value;
    return { configOptions: options() };
  })
  .onRequest("session/prompt", async ({ params, client }) => {
    const turn = new Turn(client, params.sessionId);
    if (!second) {
      return { stopReason: await turn.work(params.prompt) };
    }
    setImmediate(() => accepted(turn, params.prompt));
    return { messageId: `user-${turn.messageId}` };
  })
  .onNotification("session/cancel", ({ params }) => {
    cancelled.set(params.sessionId, true);
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
