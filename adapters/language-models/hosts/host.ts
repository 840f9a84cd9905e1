import type { FaultContext } from "../errors.js";
import type { Network } from "../network.js";
import type { Settings } from "../options.js";
import type { HttpRequestData, WireRequest } from "../wires/wire.js";

/** A cloud or subscription that serves models over a known protocol, with its own addresses and credentials. */
export interface Host {
  /** Settings with current credentials, for the model list. Undefined if the preset has no list. */
  readonly authorizeSettings?: (signal: AbortSignal) => Promise<Settings>;
  /** Converts a request of the wire to a request of the host, with current credentials. */
  convert(request: HttpRequestData, wireRequest: WireRequest, signal: AbortSignal): Promise<HttpRequestData>;
}

export interface HostContext {
  readonly settings: Settings;
  readonly network: Network;
  readonly faultContext: FaultContext;
  /** Folder of the config file, for packages that are installed there. */
  readonly configDir: string | undefined;
}
