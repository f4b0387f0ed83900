// What the documentation of the npm package `consul` shows of sessions and transactions. Run with the port of an
// agent, beside node_modules; prints what each step returned, as one object of JSON.
import Consul from "consul";

const consul = new Consul({ host: "127.0.0.1", port: Number(process.argv[2]) });
const seen = {};
const missing = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01";
const refused = (promise) => promise.then(() => "", (error) => error.message);

const { ID: first } = await consul.session.create({ name: "one", lockdelay: "0s", ttl: "20s" });
const { ID: second } = await consul.session.create({ name: "two", lockdelay: "0s", checks: ["serfHealth"] });
const info = await consul.session.get(first);
seen["get"] = (Array.isArray(info) ? info : [info]).map((each) => [each.Name, each.Node, each.TTL, each.LockDelay]);
seen["list"] = (await consul.session.list()).map((each) => each.Name).sort();
seen["node"] = (await consul.session.node("n1")).map((each) => each.Name).sort();
seen["renew"] = (await consul.session.renew(first))[0].ID === first;
seen["renew what is gone"] = await refused(consul.session.renew(missing));
seen["acquire"] = [
  await consul.kv.set({ key: "lock", value: "one", acquire: first }),
  await consul.kv.set({ key: "lock", value: "two", acquire: second }),
];
seen["holder"] = (await consul.kv.get("lock")).Session === first;
seen["release"] = await consul.kv.set({ key: "lock", value: "one", release: first });
await consul.session.destroy(first);
await consul.session.destroy(second);
seen["list after destroying"] = await consul.session.list();
const value = Buffer.from("bar").toString("base64");
const done = await consul.transaction.create([
  { KV: { Verb: "set", Key: "foo", Value: value } },
  { KV: { Verb: "get", Key: "foo" } },
]);
seen["transaction"] = [done.Results.map((each) => each.KV.Value), done.Errors];
seen["a transaction that fails"] = await refused(consul.transaction.create([{ KV: { Verb: "get", Key: "no" } }]));
console.log(JSON.stringify(seen));
