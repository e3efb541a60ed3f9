package nodegroup

// OwnUserData is ownUserData for the stories.
var OwnUserData = ownUserData
