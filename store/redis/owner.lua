-- A portion of the records that the process ARGV[3] has to look after, among the keys that
-- are like ARGV[2], from the cursor ARGV[1] on: those that it keeps of slots without an ID,
-- in which ARGV[4] stands in place of their end, and roots, whose keys have the length
-- ARGV[5].
local function its(key)
	local head = redis.pcall('GETRANGE', key, 0, 43)
	if type(head) ~= 'string' or #head < 44 then return false end
	if #key ~= tonumber(ARGV[5]) then
		return string.sub(head, 1, 8) == ARGV[3] and string.sub(head, 17, 24) == ARGV[4]
	end
	local from = 44 + 64 * struct.unpack('<H', head, 43) + 8 -- steps, and the life
	return redis.pcall('GETRANGE', key, from, from + 7) == ARGV[3]
end

local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 2000)
local found = {page[1]}
for _, key in ipairs(page[2]) do
	if its(key) then found[#found + 1] = key end
end
return found
