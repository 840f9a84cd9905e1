import { ProviderError } from "gantry";
import { importOptionalPackage } from "../optional-package.js";
import type { HttpRequestData, WireRequest } from "../wires/wire.js";
import type { Host, HostContext } from "./host.js";

const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
/** Version of the Messages API on Vertex: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai */
const MESSAGES_VERSION = "vertex-2023-10-16";

type GoogleAuthPackage = typeof import("google-auth-library");

/**
 * Google Vertex AI. The key is an access token; without a key, `google-auth-library` finds the application default
 * credentials and refreshes their tokens.
 */
export function createVertexHost(context: HostContext): Host {
  const { settings } = context;
  const { name, apiKey, baseUrl } = settings;
  // Otherwise the package requests the project of the credentials.
  const projectId = /\/projects\/([^/]+)/.exec(baseUrl)?.[1];
  let authPromise: Promise<InstanceType<GoogleAuthPackage["GoogleAuth"]>> | undefined;

  const getToken = async (): Promise<string> => {
    if (apiKey !== undefined) return apiKey;
    authPromise ??= importOptionalPackage<GoogleAuthPackage>(
      "google-auth-library",
      "google-auth-library@10",
      name,
      context.configDir,
    ).then(({ GoogleAuth }) => new GoogleAuth({ scopes: SCOPE, ...(projectId !== undefined && { projectId }) }));
    const auth = await authPromise;
    try {
      const token = await auth.getAccessToken();
      if (token) return token;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ProviderError(name, "authentication", context.faultContext.redact(`Google credentials: ${reason}`), {
        cause: error,
      });
    }
    throw new ProviderError(
      name,
      "authentication",
      'no Google credentials; run "gcloud auth application-default login"',
    );
  };

  return {
    async convert({ url, headers, body }, { request: { model } }: WireRequest): Promise<HttpRequestData> {
      // The headers of the wires for the key and the version do not exist on Vertex.
      const {
        "x-api-key": _key,
        "x-goog-api-key": _googleKey,
        "anthropic-version": _version,
        ...otherHeaders
      } = headers;
      const authorizedHeaders = { ...otherHeaders, authorization: `Bearer ${await getToken()}` };
      const publisherUrl = `${baseUrl}/publishers`;
      switch (settings.wire) {
        case "google":
          return { url: url.replace(baseUrl, `${publisherUrl}/google`), headers: authorizedHeaders, body };
        case "anthropic": {
          const { model: _model, ...fields } = JSON.parse(body) as Record<string, unknown>;
          return {
            url: `${publisherUrl}/anthropic/models/${encodeURI(model.id)}:streamRawPredict`,
            headers: authorizedHeaders,
            body: JSON.stringify({ anthropic_version: MESSAGES_VERSION, ...fields }),
          };
        }
        default:
          return { url, headers: authorizedHeaders, body };
      }
    },
  };
}
