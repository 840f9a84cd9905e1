import type { ApiSession } from "gantry/client";
import { IconButton } from "../parts/button.js";
import { useConsole } from "../state/context.js";

/** Button that pins a session to the top of the list, or unpins it. */
export function PinButton({ session }: { session: ApiSession }) {
  const { pins } = useConsole();
  const isPinned = pins.has(session.id);
  return (
    <IconButton
      icon="pin"
      label={`${isPinned ? "Unpin" : "Pin"} ${session.title}`}
      pressed={isPinned}
      onClick={() => pins.toggle(session)}
    />
  );
}
