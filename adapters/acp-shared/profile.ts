import type { AcpOptions } from "./options.js";
import type { Initialize } from "./params.js";
import type { Profile } from "./wire.js";

/** How one client is spoken to. */
export interface Manner {
  profile: Profile;
  /** Whether every block of its prompts is read, rather than the first text alone, and it is told what editors show besides. */
  editor: boolean;
}

/**
 * What config and the client's own words make of it. Real editors send several blocks, and the question is rarely the
 * first, so whoever looks like one is read whole, also without a name that is known.
 */
export function mannerOf(
  { profile, officialClients }: Pick<AcpOptions, "profile" | "officialClients">,
  client: Initialize | undefined,
): Manner {
  if (profile !== "auto") return { profile, editor: profile === "official" };
  if (client && isListed(client.clientName, officialClients)) return { profile: "official", editor: true };
  return { profile: "spec", editor: client?.editor === true };
}

function isListed(name: string, listed: readonly string[]): boolean {
  if (name === "") return false;
  return listed.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : name === entry));
}
