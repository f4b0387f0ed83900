-- Keys as the budgets mean them: 10,000 of 40 characters, values of 100 bytes, each write another value.
-- Arguments: PUT or GET, how the query begins, and from which key on they are taken one after the other
-- instead of at random (0: at random).

local paths = {}
local method, query, following

function init(arguments)
   method, query, following = arguments[1], arguments[2] or "", tonumber(arguments[3] or "0")
   math.randomseed(os.time())
   for number = 1, 10000 do
      paths[number] = string.format("/v1/kv/%040d", number) .. query
   end
end

local filler = string.rep("x", 88)

function request()
   local path
   if following > 0 then
      path = string.format("/v1/kv/%040d", following) .. query
      following = following + 1
   else
      path = paths[math.random(10000)]
   end
   if method == "GET" then
      return wrk.format("GET", path)
   end
   return wrk.format("PUT", path, nil, filler .. string.format("%012d", math.random(1, 1000000000)))
end
