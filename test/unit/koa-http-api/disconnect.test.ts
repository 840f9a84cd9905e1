import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { it } from "node:test";
import type { Context } from "koa";
import { abortWith, createDisconnectController } from "../../../adapters/koa-http-api/api.js";

/** Creates the context of a response in this state. */
function createContext(state: { closed: boolean; writableFinished: boolean }): Context {
  return { res: Object.assign(new EventEmitter(), state) } as unknown as Context;
}

it("createDisconnectController aborts when an incomplete response closes, also if it has closed before", () => {
  const reason = new Error("disconnected");
  const context = createContext({ closed: false, writableFinished: false });
  const controller = createDisconnectController(context, () => reason);
  assert.equal(controller.signal.aborted, false);
  context.res.emit("close");
  assert.equal(controller.signal.reason, reason);
  const closedContext = createContext({ closed: true, writableFinished: false });
  assert.equal(createDisconnectController(closedContext, () => reason).signal.reason, reason);
});

it("createDisconnectController does not abort after a complete response", () => {
  const context = createContext({ closed: false, writableFinished: true });
  const controller = createDisconnectController(context);
  context.res.emit("close");
  assert.equal(controller.signal.aborted, false);
  assert.equal(
    createDisconnectController(createContext({ closed: true, writableFinished: true })).signal.aborted,
    false,
  );
});

it("abortWith aborts a controller with a signal until it is released", () => {
  const stopController = new AbortController();
  const controllers = [new AbortController(), new AbortController()] as const;
  const releases = controllers.map((controller) => abortWith(controller, stopController.signal));
  releases[0]?.();
  stopController.abort("stop");
  assert.equal(controllers[0].signal.aborted, false);
  assert.equal(controllers[1].signal.reason, "stop");
  abortWith(controllers[0], stopController.signal);
  assert.equal(controllers[0].signal.reason, "stop");
});
