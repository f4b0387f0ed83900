-- What wrk asks about sessions, locks and transactions. Arguments: what, and a file with a session on each
-- line. Each of wrk's threads is alone here, and its connections take turns.
--
--   locks         one after the other acquires and releases a key of its own, 1,000 of them
--   transactions  as many puts at once as the first line of the file says
--   creations     one after the other creates a session, and destroys the one that was created last

local what, sessions, step = "", {}, 0
local keys, filler = 1000, string.rep("x", 88)
local created = {}

function init(arguments)
   what = arguments[1]
   math.randomseed(os.time())
   for line in io.lines(arguments[2]) do
      sessions[#sessions + 1] = line
   end
end

local function lock()
   local number = math.floor(step / 2) % keys
   local verb = step % 2 == 0 and "acquire" or "release"
   local session = sessions[number % #sessions + 1]
   step = step + 1
   return wrk.format("PUT", string.format("/v1/kv/lock/%040d?%s=%s", number, verb, session), nil, "held")
end

local function transaction()
   local operations = {}
   local value = "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
   for number = 1, tonumber(sessions[1]) do
      operations[number] = string.format(
         '{"KV":{"Verb":"set","Key":"txn/%040d","Value":"%s%08d"}}', math.random(10000), value, math.random(99999999)
      )
   end
   return wrk.format("PUT", "/v1/txn", nil, "[" .. table.concat(operations, ",") .. "]")
end

local function creation()
   local id = table.remove(created)
   if id then
      return wrk.format("PUT", "/v1/session/destroy/" .. id)
   end
   return wrk.format("PUT", "/v1/session/create", nil, '{"LockDelay":"0s","TTL":"60s"}')
end

function request()
   if what == "locks" then
      return lock()
   end
   return what == "transactions" and transaction() or creation()
end

function response(_status, _headers, body)
   if what == "creations" then
      local id = string.match(body, '"ID":%s*"([^"]+)"')
      if id then
         created[#created + 1] = id
      end
   end
end
