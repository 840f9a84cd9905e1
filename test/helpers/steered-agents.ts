import { Agent, type AgentOptions, type Message } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { sendInstruction } from "../../src/testing/session-driver/driver-calls.js";
import { createGate, createWaitTool } from "./gate.js";
import { observeDriver } from "./observed-driver.js";
import { tempDir, type Hooks } from "./temp-dir.js";

const toText = ({ role, parts }: Message): string =>
  `${role}: ${parts.map((part) => ("text" in part ? part.text : part.type)).join("|")}`;

/** Two agents on one store, like two processes. The first agent has the script and a tool that waits for the gate. */
export async function createAgents(
  t: Hooks,
  openDriver: () => SessionDriver,
  script: readonly ScriptedStep[],
  options: Partial<AgentOptions> = {},
) {
  const folder = await tempDir(t);
  const toolGate = createGate();
  const provider = new ScriptedProvider(script);
  const [localDriver, remoteDriver] = [openDriver(), openDriver()];
  const { driver, waitForResult } = observeDriver(localDriver);
  const [localAgent, remoteAgent] = [driver, remoteDriver].map(
    (agentDriver) =>
      new Agent({
        driver: agentDriver,
        providers: [provider],
        tools: [createWaitTool(toolGate)],
        projectDir: folder.path,
        ...options,
      }),
  ) as [Agent, Agent];
  t.after(async () => {
    toolGate.open();
    await Promise.all([localAgent.close(), remoteAgent.close()]);
  });
  const readTexts = async (id: string) => (await remoteAgent.sessions.messages(id)).map(toText);
  return { localAgent, remoteAgent, localDriver, remoteDriver, toolGate, provider, readTexts, waitForResult };
}

/** A call of the tool that waits for the gate. */
export const WAIT_STEP: ScriptedStep = callTools(["wait", {}]);

/** Sends a text to the next run that ends, after its last read of instructions and before its end is stored. */
export function steerLate(driver: SessionDriver): { text: string } {
  const lateMessage = { text: "" };
  const { write } = driver;
  driver.write = async (id, change) => {
    const [endedRun] = change.runs ?? [];
    const { text } = lateMessage;
    if (endedRun && endedRun.endedAt !== "" && text !== "") {
      lateMessage.text = "";
      const instructionFields = { sessionId: id, runId: endedRun.id, createdAt: endedRun.endedAt };
      await sendInstruction(driver, { id: text, kind: "steer", text, ...instructionFields });
    }
    return write.call(driver, id, change);
  };
  return lateMessage;
}
