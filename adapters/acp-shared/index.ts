export { acpClient, type AcpClient } from "./client.js";
export { AcpConnection } from "./acp-connection.js";
export { readSessionId, type ClientRequestOptions, type Sink } from "./dispatcher.js";
export { RpcError } from "./errors.js";
export { parseFrame, readFrame, toErrorResponse, type ClientFrame } from "./frames.js";
export { ACP_DEFAULTS, acpEntries, acpLimits, type AcpOptions, type AuthMethod } from "./options.js";
export { AcpServer } from "./acp-server.js";
export {
  CLIENT_METHODS,
  ERROR_CODES,
  METHODS,
  type OutgoingMessage,
  type Profile,
  type ProfileChoice,
  type RequestId,
  type ResponseMessage,
} from "./wire.js";
