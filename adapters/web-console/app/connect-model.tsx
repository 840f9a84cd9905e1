import type { ApiModel } from "gantry/client";
import { COMMON_PROVIDERS } from "./common-providers.js";

/** How to connect models, with the state of common providers. Keys are set on the server, never in the browser. */
export function ConnectModel({ models }: { models: readonly ApiModel[] }) {
  const providers = new Set(models.map(({ provider }) => provider));
  return (
    <>
      <p class="settings-note">
        Set the variable in the environment of the server, or add the entry to <code>providers</code> in{" "}
        <code>config.json</code>. Then restart the server. Keys are not entered in the browser.
      </p>
      <div class="settings-table" role="group" aria-label="Providers" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Provider</th>
              <th scope="col">Environment variable</th>
              <th scope="col">Entry in providers</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {COMMON_PROVIDERS.map(([id, name, keyVariable]) => (
              <tr key={id}>
                <th scope="row">{name}</th>
                <td>{keyVariable === "" ? "none" : <code>{keyVariable}</code>}</td>
                <td>
                  <code>{`{ "provider": "${id}" }`}</code>
                </td>
                <td>{providers.has(id) ? "connected" : "not connected"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
