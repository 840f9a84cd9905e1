import type { AcpOptions } from "./options.js";
import type { Initialize } from "./params.js";
import type { Profile } from "./wire.js";

/** Behavior towards one client. */
export interface ClientProfile {
  profile: Profile;
  /**
   * Whether to read all blocks of a prompt instead of the first text only, and to send the updates that editors show.
   */
  editor: boolean;
}

/**
 * The behavior from config and `initialize`. Editors send several blocks, and the question is rarely the first. A
 * client with editor capabilities is therefore read fully, even if its name is unknown.
 */
export function resolveProfile(
  { profile, officialClients }: Pick<AcpOptions, "profile" | "officialClients">,
  client: Initialize | undefined,
): ClientProfile {
  if (profile !== "auto") return { profile, editor: profile === "official" };
  if (client && isListed(client.clientName, officialClients)) return { profile: "official", editor: true };
  return { profile: "spec", editor: client?.editor === true };
}

function isListed(name: string, listed: readonly string[]): boolean {
  if (name === "") return false;
  return listed.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : name === entry));
}
