import assert from "node:assert/strict";
import { it } from "node:test";
import { NO_OTHER_USER, requestAsUser } from "../../helpers/other-user.js";
import { startServer } from "../../helpers/server.js";

/** The user `nobody`. */
const OTHER_UID = 65_534;

it(
  "server.allow_other_users admits other users, and the log names who can connect",
  { skip: NO_OTHER_USER },
  async (t) => {
    const [privateServer, sharedServer] = await Promise.all([
      startServer(t),
      startServer(t, { config: { server: { allow_other_users: true } } }),
    ]);
    const requestSessions = (url: string) => requestAsUser(OTHER_UID, "127.0.0.1", new URL(url).port, "/api/sessions");

    await privateServer.waitForOutput(/no authentication: every process of yours on this machine can run/, "stderr");
    assert.equal(await requestSessions(privateServer.url), 403);
    await privateServer.waitForOutput(
      /refused a process of another user of this machine \(uid 65534\); .*server\.allow_other_users admits all users/,
      "stderr",
    );

    await sharedServer.waitForOutput(/no authentication: every process of this machine can run/, "stderr");
    assert.equal(await requestSessions(sharedServer.url), 200);
    await sharedServer.stop();
    assert.doesNotMatch(sharedServer.stderr, /another user/);
  },
);
