// What the documentation of the npm package `consul` shows of keys. Run with the port of an agent, beside
// node_modules; prints what each step returned, as one object of JSON.
import Consul from "consul";

const consul = new Consul({ host: "127.0.0.1", port: Number(process.argv[2]) });
const seen = {};
const shown = ({ CreateIndex, ModifyIndex, ...rest }) => rest;

seen["get what is not there"] = (await consul.kv.get("hello")) ?? null;
seen["set"] = await consul.kv.set("hello", "world");
seen["get"] = shown(await consul.kv.get("hello"));
seen["raw"] = (await consul.kv.get({ key: "hello", raw: true })).toString();
seen["buffer"] = [...(await consul.kv.get({ key: "hello", buffer: true })).Value];
seen["set bytes"] = await consul.kv.set("bytes", Buffer.from([0, 255]));
seen["get bytes"] = [...(await consul.kv.get({ key: "bytes", raw: true }))];
seen["set with options"] = await consul.kv.set({ key: "a/ü b?#%", value: "ö", flags: 42, dc: "dc1" });
seen["get with options"] = shown(await consul.kv.get({ key: "a/ü b?#%", dc: "dc1", stale: true }));
seen["consistent"] = (await consul.kv.get({ key: "hello", consistent: true })).Value;
await consul.kv.set("a/b", "1");
await consul.kv.set("a/c/d", "2");
seen["recurse"] = (await consul.kv.get({ key: "a/", recurse: true })).map((each) => each.Value);
seen["keys"] = await consul.kv.keys("a/");
seen["keys to a separator"] = await consul.kv.keys({ key: "a/", separator: "/" });
seen["all keys"] = await consul.kv.keys();
seen["keys of nothing"] = await consul.kv.keys("nothing/").catch((error) => error.message);

const index = (await consul.kv.get("hello")).ModifyIndex;
seen["cas"] = [
  await consul.kv.set({ key: "hello", value: "x", cas: "0" }),
  await consul.kv.set({ key: "hello", value: "again", cas: String(index) }),
  await consul.kv.set({ key: "hello", value: "y", cas: String(index) }),
  await consul.kv.del({ key: "hello", cas: String(index) }),
];

seen["watch"] = await new Promise((resolve, reject) => {
  const values = [];
  const watch = consul.watch({ method: consul.kv.get, options: { key: "hello", wait: "10s" } });
  watch.on("error", reject);
  watch.on("change", async (data) => {
    values.push(data?.Value ?? null);
    if (values.length === 1) {
      await consul.kv.set("elsewhere", "x");
      await consul.kv.set("hello", "second");
    } else if (values.length === 2) {
      await consul.kv.del("hello");
    } else {
      watch.end();
      resolve(values);
    }
  });
});

await consul.kv.del("a/b");
seen["del"] = (await consul.kv.get("a/b")) ?? null;
await consul.kv.del({ key: "a/", recurse: true });
seen["del a tree"] = (await consul.kv.get({ key: "a/", recurse: true })) ?? null;
console.log(JSON.stringify(seen));
