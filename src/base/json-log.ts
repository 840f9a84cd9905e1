import { attempt } from "./attempt.js";
import type { LogFormatter } from "./log.js";

/** Formats an entry as one JSON object: `time`, `level`, `message`, then the fields. Loaded only for `log.format`. */
export const formatJsonEntry: LogFormatter = (time, level, message, fieldsText) => {
  const head = { time, level, message };
  const noFields = fieldsText === "" ? {} : { fields: "unserialisable" };
  const fields = attempt(() => JSON.parse(fieldsText) as object, noFields);
  // A field must not replace the time, the level or the message.
  return JSON.stringify(Object.assign({ ...head }, fields, head));
};
