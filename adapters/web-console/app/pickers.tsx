import type { Effort, Mode } from "gantry/client";
import { ModelPicker } from "./model-picker.js";
import "./pickers.css";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/open-session.js";

const MODES: Readonly<Record<Mode, readonly [label: string, says: string]>> = {
  auto: ["Auto", "Tools run without asking"],
  ask: ["Ask", "Edits and commands need your approval"],
  plan: ["Plan", "Nothing is changed; a plan is made"],
};
const EFFORTS: Readonly<Record<Effort, string>> = {
  "": "Default effort",
  minimal: "Minimal effort",
  low: "Low effort",
  medium: "Medium effort",
  high: "High effort",
  xhigh: "Extra high effort",
  max: "Most effort",
};

/** Model, effort and mode of a session, or of a new session's draft. */
export function Pickers({ session }: { session: WatchedSession | undefined }) {
  const app = useConsole();
  const { draft } = app;
  const info = session?.info.value;
  const isWaiting = session !== undefined && info === undefined;
  const mode = session ? (info?.mode ?? "auto") : draft.mode.value;
  const effort = (session ? info?.reasoning_effort : draft.effort.value) ?? "";
  const model = session ? info && { provider: info.provider, model: info.model } : draft.model.value;
  return (
    <div class="pickers" role="group" aria-label="Model, effort and mode">
      <ModelPicker
        models={app.models.value}
        value={model}
        isNew={session === undefined}
        disabled={isWaiting}
        onOpen={() => void app.loadModels()}
        onChoose={(chosen) => {
          if (!session) draft.model.value = chosen;
          else if (chosen) void session.change(chosen);
        }}
      />
      <select
        class="picker"
        aria-label="Effort"
        title="How long the model thinks"
        disabled={isWaiting}
        value={effort}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value as Effort;
          if (session) void session.change({ reasoning_effort: chosen });
          else draft.effort.value = chosen;
        }}
      >
        {Object.entries(EFFORTS).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <select
        class={`picker picker-mode mode-${mode || "default"}`}
        aria-label="Mode"
        title={mode === "" ? "The server's own mode" : MODES[mode][1]}
        disabled={isWaiting}
        value={mode}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value as Mode | "";
          if (!session) draft.mode.value = chosen;
          else if (chosen !== "") void session.change({ mode: chosen });
        }}
      >
        {!session && <option value="">Default mode</option>}
        {Object.entries(MODES).map(([value, [label, says]]) => (
          <option key={value} value={value} title={says}>
            {label}
          </option>
        ))}
      </select>
    </div>
  );
}
