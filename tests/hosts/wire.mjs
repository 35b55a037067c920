// JSON-RPC for hosts that have no official SDK for TypeScript: requests as they are, over either transport.

import { reach } from "../clients/connecting.mjs";

export class Refused extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export class Wire {
  #waiting = new Map();
  #listeners = new Set();
  #id = 0;
  requests = {};

  static async open(replay, revision) {
    const wire = new Wire();
    wire.transport = await reach({ client: "v1", cwd: replay.asked.cwd }, replay.asked.serving);
    wire.transport.onmessage = (message) => wire.#take(message);
    await wire.transport.start();
    wire.revision = revision;
    replay.closing.push(() => wire.transport.close());
    return wire;
  }

  async initialize(capabilities, clientInfo, more = {}) {
    const params = { protocolVersion: this.revision, capabilities, clientInfo, ...more };
    const result = await this.request("initialize", params);
    this.transport.setProtocolVersion?.(result.protocolVersion);
    return result;
  }

  async request(method, params) {
    const id = this.#id++;
    const answered = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    await this.transport.send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
    return answered;
  }

  // Sends a request and takes it back at once, as for each further letter that a person types.
  async abandon(method, params) {
    const requestId = this.#id++;
    await this.transport.send({ jsonrpc: "2.0", id: requestId, method, params });
    await this.notify("notifications/cancelled", { requestId });
  }

  notify(method, params) {
    return this.transport.send({ jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) });
  }

  // The first notification of a method that passes; listens from the call on.
  notification(method, passes = () => true) {
    return new Promise((resolve) => {
      const listener = (message) => {
        if (message.method !== method || !passes(message.params ?? {})) return;
        this.#listeners.delete(listener);
        resolve(message.params ?? {});
      };
      this.#listeners.add(listener);
    });
  }

  #take(message) {
    if (message.method === undefined) {
      const waiting = this.#waiting.get(message.id); // None for what was abandoned too late.
      this.#waiting.delete(message.id);
      if (message.error) waiting?.reject(new Refused(message.error));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) {
      for (const listener of [...this.#listeners]) listener(message);
    } else {
      const result = this.requests[message.method]?.(message.params) ?? {};
      void this.transport.send({ jsonrpc: "2.0", id: message.id, result });
    }
  }
}

// The error of a promise that must fail.
export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return undefined;
}
