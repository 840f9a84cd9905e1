import { LeaseLostError, PointNotFoundError, RunKeyTakenError, SessionExistsError, SessionNotFoundError } from "gantry";
import { SeqTakenError } from "gantry/plugin";
import { decodeText } from "./text-encoding.js";

interface ServerErrorFields {
  code?: string;
  detail?: string;
  constraint?: string;
}

/** Converts a rejection by a database function or index to the driver's error; undefined for other errors. */
export function toDriverError(error: unknown): Error | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code = "", detail = "", constraint = "" } = error as Error & ServerErrorFields;
  switch (code) {
    case "GN001":
      return new SessionExistsError(decodeText(detail));
    case "GN002":
      return new SessionNotFoundError(decodeText(detail));
    case "GN003":
      return new LeaseLostError(decodeText(detail));
    case "GN004":
      return new PointNotFoundError("snapshot");
    case "GN005":
      return new PointNotFoundError("message");
    case "GN006":
      return new RunKeyTakenError(decodeText(detail));
    case "23505":
      return toUniquenessError(constraint, detail);
  }
  return undefined;
}

/**
 * Converts the violation of a unique index; undefined for other indexes. `detail` contains the column names in the
 * server's language, then the values: `(chain, seq)=(7, 3)`.
 */
function toUniquenessError(constraint: string, detail: string): Error | undefined {
  const values = /\)=\((.*)\)/s.exec(detail)?.[1] ?? "";
  switch (constraint) {
    case "messages_pkey":
      return new SeqTakenError(Number(values.split(", ")[1] ?? 0));
    case "runs_key":
      return new RunKeyTakenError(decodeText(values));
  }
  return undefined;
}
