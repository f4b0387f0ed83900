-- Keys of a large store: 100 in a folder, values of 100 bytes. Of ten requests two read, seven write what is
-- there and one writes a new key. Arguments: how many keys there are, and from where on new ones are free.

local count, following

function init(arguments)
   count, following = tonumber(arguments[1]), tonumber(arguments[2])
   math.randomseed(os.time())
end

local filler = string.rep("x", 88)

local function path(number)
   return string.format("/v1/kv/folder/%015d/%017d", math.floor(number / 100), number)
end

function request()
   local chance = math.random(10)
   if chance <= 2 then
      return wrk.format("GET", path(math.random(0, count - 1)))
   end
   local number = math.random(0, count - 1)
   if chance == 10 then
      number, following = following, following + 1
   end
   return wrk.format("PUT", path(number), nil, filler .. string.format("%012d", math.random(1, 1000000000)))
end
