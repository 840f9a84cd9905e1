/**
 * Default options of an HTTP listener. Timeouts are in seconds, `connections` and `streams` are maximum numbers,
 * `maxEventLoopDelay` is in ms.
 */
export const HTTP_DEFAULTS = {
  host: "127.0.0.1",
  port: 8080,
  connections: 4096,
  streams: 1024,
  headerTimeout: 15,
  requestTimeout: 30,
  keepAliveTimeout: 120,
  maxEventLoopDelay: 2_000,
};
