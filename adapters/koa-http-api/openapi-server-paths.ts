import {
  accessErrors,
  bodyErrors,
  failure,
  integerFrom,
  notFound,
  pageErrors,
  query,
  queryErrors,
  storeErrors,
  success,
  textSchema,
  type Operation,
} from "./openapi-operation.js";

/** Operations that describe the server and its project folders: health, models, commands, files and MCP servers. */
export const SERVER_OPERATIONS: readonly Operation[] = [
  {
    ...{ id: "health", path: "/api/health", method: "get", summary: "Whether the process is alive" },
    responses: { 200: success("The process is alive", "Health"), ...accessErrors },
  },
  {
    ...{ id: "ready", path: "/api/ready", method: "get", summary: "Whether the server accepts runs" },
    responses: {
      ...accessErrors,
      200: success("The server accepts runs", "Ready"),
      503: {
        description: "The server accepts no runs; with all reasons",
        shapes: ["NotReady"],
        headers: ["Retry-After"],
      },
    },
  },
  {
    ...{ id: "describe", path: "/api/openapi.json", method: "get", summary: "This document" },
    responses: { 200: { description: "OpenAPI 3.1" }, ...accessErrors },
  },
  {
    ...{ id: "listModels", path: "/api/models", method: "get", summary: "The models of every provider" },
    responses: { 200: success("The available models", "ModelList"), ...storeErrors },
  },
  {
    ...{ id: "listCommands", path: "/api/commands", method: "get", summary: "The slash commands (`/name arguments`)" },
    parameters: [
      query("session_id", textSchema, "A session: commands of its folder and of its MCP servers"),
      query("project_dir", textSchema, "A folder: commands of this folder"),
    ],
    responses: {
      200: success("The commands of the session or folder, else of a new session", "CommandList"),
      ...queryErrors,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    ...{
      id: "listFiles",
      path: "/api/files",
      method: "get",
      summary: "Files of a project folder, found by their path",
    },
    parameters: [
      query("session_id", textSchema, "A session: files of its folder"),
      query("project_dir", textSchema, "A folder: files of this folder. Default: the served folder"),
      query("query", textSchema, "Characters of the path in this order, at most 200. Default: all files"),
      query("limit", integerFrom(1, { default: 20 }), "At most 100"),
    ],
    responses: {
      200: success("The best matches first, without files that ignore files exclude", "FileList"),
      ...queryErrors,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    ...{ id: "listMcpServers", path: "/api/mcp-servers", method: "get", summary: "The configured MCP servers" },
    responses: { 200: success("All servers, in the order of the config", "McpServerList"), ...accessErrors },
  },
  {
    id: "beginMcpLogin",
    path: "/api/mcp-servers/{id}/login",
    method: "post",
    summary: "Begin a login to an MCP server; the id is its name",
    body: "McpLoginRequest",
    responses: {
      200: success("The address for the person's browser", "McpLogin"),
      ...bodyErrors,
      ...notFound("server"),
      409: failure("The server needs no login"),
      502: failure("The server or its authorization server failed"),
      ...accessErrors,
    },
  },
  {
    id: "logOutOfMcpServer",
    path: "/api/mcp-servers/{id}/logout",
    method: "post",
    summary: "Delete the login to an MCP server",
    responses: {
      200: success("The login is deleted", "McpLogout"),
      ...notFound("server"),
      409: failure("The server needs no login"),
      ...pageErrors,
      ...accessErrors,
    },
  },
];
