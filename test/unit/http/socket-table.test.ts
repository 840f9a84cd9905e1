import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { describe, it } from "node:test";
import { isLocalAddress, SocketTable } from "../../../src/http/socket-table.js";
import { tempDir } from "../../helpers/temp-dir.js";

const TABLE_HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

const formatPort = (port: number) => port.toString(16).toUpperCase().padStart(4, "0");
/** Formats the addresses of a connection from a client port to port 8080 (hexadecimal 1F90) on 127.0.0.1. */
const formatAddresses = (clientPort: number) => `: 0100007F:${formatPort(clientPort)} 0100007F:1F90 `;

/** Formats a table line like the kernel, padded to 149 characters. */
function formatLine(n: number, uid: number, inode = 1000 + n): string {
  return `${String(n).padStart(4)}${formatAddresses(n)}01 00000000:00000000 00:00000000 00000000 ${String(uid).padStart(5)}        0 ${inode} 1 0000000000000000 20 0 0 10 -1`.padEnd(
    149,
  );
}

describe("SocketTable", () => {
  it("finds the user id and the inode of each of 1,000 sockets", async (t) => {
    const folder = await tempDir(t);
    const lines = Array.from({ length: 1_000 }, (_, n) => formatLine(n, n % 7));
    await folder.write({ tcp: [TABLE_HEADER, ...lines, ""].join("\n") });
    const table = new SocketTable(folder.at("tcp"));
    assert.deepEqual(await table.findOwner(formatAddresses(3)), { uid: 3, inode: "1003" });
    const foundOwners = await Promise.all(lines.map((_, n) => table.findOwner(formatAddresses(n))));
    assert.deepEqual(
      foundOwners,
      lines.map((_, n) => ({ uid: n % 7, inode: String(1000 + n) })),
    );
  });

  it("returns `none` for a socket that is missing or has no process, and `hidden` for a missing table", async (t) => {
    const folder = await tempDir(t);
    await folder.write({
      tcp: [
        TABLE_HEADER,
        formatLine(1, 0, 0),
        formatLine(2, 5),
        formatLine(2, 6, 0),
        formatLine(3, 0, 0),
        formatLine(3, 8),
        "",
      ].join("\n"),
    });
    const table = new SocketTable(folder.at("tcp"));
    const owners = [1, 2, 3, 4].map((n) => table.findOwner(formatAddresses(n)));
    assert.deepEqual(await Promise.all(owners), ["none", { uid: 5, inode: "1002" }, { uid: 8, inode: "1003" }, "none"]);
    assert.equal(await new SocketTable(folder.at("none")).findOwner(formatAddresses(1)), "hidden");
    // A folder can be opened, but reading it fails with EISDIR. This error does not mean that the table is hidden.
    assert.equal(await new SocketTable(folder.path).findOwner(formatAddresses(1)), "none");
  });

  it("finds a socket that was added while an earlier search reads the table", async (t) => {
    const folder = await tempDir(t);
    await folder.write({ tcp: [TABLE_HEADER, formatLine(1, 1), ""].join("\n") });
    const table = new SocketTable(folder.at("tcp"));
    const firstSearch = table.findOwner(formatAddresses(2));
    await folder.write({ tcp: [TABLE_HEADER, formatLine(1, 1), formatLine(2, 2), ""].join("\n") });
    const secondSearch = table.findOwner(formatAddresses(2));
    await firstSearch;
    assert.deepEqual(await secondSearch, { uid: 2, inode: "1002" });
  });
});

it("isLocalAddress finds an IPv4 address of this machine also in its IPv6 form", () => {
  const addresses = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const ipv4Addresses = addresses.filter(({ family }) => family === "IPv4").map(({ address }) => address);
  assert.ok(ipv4Addresses.length > 0);
  for (const address of ipv4Addresses) {
    assert.equal(isLocalAddress(address), true);
    assert.equal(isLocalAddress(`::ffff:${address}`), true);
  }
  // Addresses for documentation.
  for (const address of ["203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1"])
    assert.equal(isLocalAddress(address), false);
});
