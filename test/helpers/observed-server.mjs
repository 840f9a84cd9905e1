// Loaded into a server: writes each response, refused or served, as a line on stderr.
import { subscribe } from "node:diagnostics_channel";

subscribe("http.server.response.finish", ({ request, response }) => {
  const { host, origin, "sec-fetch-site": site } = request.headers;
  const summary = { method: request.method, url: request.url, status: response.statusCode, host, origin, site };
  process.stderr.write(`ANSWERED ${JSON.stringify(summary)}\n`);
});
