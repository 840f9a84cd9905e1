import type { Effort, Mode } from "gantry/client";
import { ModelPicker } from "./model-picker.js";
import { MODES } from "./modes.js";
import "./pickers.css";
import { useConsole } from "./state/context.js";
import type { WatchedSession } from "./state/watched-session.js";

const EFFORTS: Readonly<Record<Effort, string>> = {
  "": "Default effort",
  minimal: "Minimal effort",
  low: "Low effort",
  medium: "Medium effort",
  high: "High effort",
  xhigh: "Extra high effort",
  max: "Maximum effort",
};

/** Model, effort and mode of a session, or of a new session. */
export function Pickers({ session }: { session: WatchedSession | undefined }) {
  const store = useConsole();
  const { newSessionSettings } = store;
  const info = session?.info.value;
  const isWaiting = session !== undefined && info === undefined;
  const mode = session ? (info?.mode ?? "auto") : newSessionSettings.mode.value;
  const effort = (session ? info?.reasoning_effort : newSessionSettings.effort.value) ?? "";
  const currentModel = session
    ? info && { provider: info.provider, model: info.model }
    : newSessionSettings.model.value;
  return (
    <div class="pickers" role="group" aria-label="Model, effort and mode">
      <ModelPicker
        models={store.models.value}
        value={currentModel}
        isNew={session === undefined}
        disabled={isWaiting}
        onOpen={() => void store.loadModels()}
        onChoose={(newModel) => {
          if (!session) newSessionSettings.model.value = newModel;
          else if (newModel) void session.update(newModel);
        }}
      />
      <select
        class="picker"
        aria-label="Effort"
        title="How long the model thinks"
        disabled={isWaiting}
        value={effort}
        onChange={({ currentTarget }) => {
          const newEffort = currentTarget.value as Effort;
          if (session) void session.update({ reasoning_effort: newEffort });
          else newSessionSettings.effort.value = newEffort;
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
        title={mode === "" ? "The server's default mode" : MODES[mode][1]}
        disabled={isWaiting}
        value={mode}
        onChange={({ currentTarget }) => {
          const newMode = currentTarget.value as Mode | "";
          if (!session) newSessionSettings.mode.value = newMode;
          else if (newMode !== "") void session.update({ mode: newMode });
        }}
      >
        {!session && <option value="">Default mode</option>}
        {Object.entries(MODES).map(([value, [label, description]]) => (
          <option key={value} value={value} title={description}>
            {label}
          </option>
        ))}
      </select>
    </div>
  );
}
