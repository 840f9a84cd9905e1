import type { SessionMode } from "gantry";
import type { ModeState, SelectOption } from "./wire.js";

/** Id and category of the mode option. */
export const MODE_OPTION = "mode";

/** The permission modes with names and descriptions for users. */
const MODES: readonly { id: SessionMode; name: string; description: string }[] = [
  { id: "auto", name: "Auto", description: "Tools run as the server's configuration allows" },
  { id: "ask", name: "Ask", description: "Tools that change something ask for your permission" },
  { id: "plan", name: "Plan", description: "Only tools that change nothing run" },
];

/** `modes` of a result that describes a session. */
export function toModeState(mode: SessionMode): ModeState {
  return { currentModeId: mode, availableModes: MODES.map((listedMode) => ({ ...listedMode })) };
}

/** The modes as a config option of the session. */
export function toModeOption(mode: SessionMode): SelectOption {
  const options = MODES.map(({ id: value, name, description }) => ({ value, name, description }));
  return { id: MODE_OPTION, name: "Mode", category: "mode", type: "select", currentValue: mode, options };
}

/** The mode with this id; undefined for an unknown id. */
export function findMode(id: string): SessionMode | undefined {
  return MODES.find((mode) => mode.id === id)?.id;
}
