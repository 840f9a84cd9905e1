import type { AcpOptions } from "./options.js";
import type { InitializeData } from "./params.js";
import type { Profile } from "./wire.js";

/** Behavior towards one client. */
export interface ClientProfile {
  profile: Profile;
  /** Whether to send notices about the run. */
  supportsNotices: boolean;
  /** Whether to show the output of commands as terminals. */
  showsTerminals: boolean;
  /**
   * Whether to read all blocks of a prompt instead of the first text only, and to send the updates that editors show.
   */
  isEditor: boolean;
}

/**
 * The behavior from config and `initialize`. Editors send several blocks, and the user's question is rarely in the
 * first block. Prompts of a client with editor capabilities are therefore read fully, even if the client's name is
 * unknown.
 */
export function resolveProfile(
  { profile, officialClients }: Pick<AcpOptions, "profile" | "officialClients">,
  client: InitializeData | undefined,
): ClientProfile {
  const isOfficial =
    profile === "official" ||
    (profile === "auto" && client !== undefined && isListed(client.clientName, officialClients));
  return {
    profile: isOfficial ? "official" : "spec",
    supportsNotices: client?.supportsNotices === true,
    // In profile `spec`, the kind of all calls is `other`, so that no call is shown as a command.
    showsTerminals: isOfficial && client?.showsTerminals === true,
    isEditor: isOfficial || (profile === "auto" && client?.isEditor === true),
  };
}

/** Whether a list contains the name; an entry that ends with `*` matches all names with this start. */
function isListed(name: string, listedNames: readonly string[]): boolean {
  if (name === "") return false;
  return listedNames.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : name === entry));
}
