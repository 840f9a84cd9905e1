import { LeaseLostError, PointNotFoundError, RunKeyTakenError, SessionExistsError, SessionNotFoundError } from "gantry";
import { SeqTakenError } from "gantry/plugin";
import { told } from "./text-encoding.js";

/** What an error of the server tells. */
interface Told {
  code?: string;
  detail?: string;
  constraint?: string;
}

/** What a function of ours, or one of the indexes, refused; undefined for all other failures. */
export function refusalOf(error: unknown): Error | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code = "", detail = "", constraint = "" } = error as Error & Told;
  switch (code) {
    case "GN001":
      return new SessionExistsError(told(detail));
    case "GN002":
      return new SessionNotFoundError(told(detail));
    case "GN003":
      return new LeaseLostError(told(detail));
    case "GN004":
      return new PointNotFoundError("snapshot");
    case "GN005":
      return new PointNotFoundError("message");
    case "GN006":
      return new RunKeyTakenError(told(detail));
    case "23505":
      return takenOf(constraint, detail);
  }
  return undefined;
}

/** `detail` names the columns in the server's language, and then their values: `(chain, seq)=(7, 3)`. */
function takenOf(constraint: string, detail: string): Error | undefined {
  const values = /\)=\((.*)\)/s.exec(detail)?.[1] ?? "";
  switch (constraint) {
    case "messages_pkey":
      return new SeqTakenError(Number(values.split(", ")[1] ?? 0));
    case "runs_key":
      return new RunKeyTakenError(told(values));
  }
  return undefined;
}
